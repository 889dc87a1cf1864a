"""Optional libraries, and the extra of makewhole that installs each."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, extra: str) -> Any:
    """Import a library that only `extra` installs; raises a ModuleNotFoundError that says how to get it.

    >>> from makewhole.extras import need
    >>> need("no_such_library", "cli")
    Traceback (most recent call last):
    ModuleNotFoundError: no_such_library is needed: pip install 'makewhole[cli]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name not in (library, module):
            raise  # it is installed, but one of its own imports is missing
        known = "scikit-learn" if library == "sklearn" else library
        raise ModuleNotFoundError(
            f"{known} is needed: pip install 'makewhole[{extra}]'", name=library
        ) from None
