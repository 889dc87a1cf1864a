"""Recalibrate a scikit-learn classifier, and say how wide c must be after that. Needs scikit-learn."""

from makewhole.extras import need

need("sklearn", "sklearn")
