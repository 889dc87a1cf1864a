"""Recalibrate a scikit-learn classifier, and say how wide c must be after that. Needs scikit-learn."""

import importlib.util

if importlib.util.find_spec("sklearn") is None:
    raise ModuleNotFoundError("scikit-learn is needed: pip install 'makewhole[sklearn]'")
