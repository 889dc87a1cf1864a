"""Read arguments: turn what a caller passes into arrays, or raise an error that says what is wrong.

Every error names the argument, the value, its index and the limit that it exceeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# How far the sum of probabilities may be from 1: a softmax in single precision rounds that much.
SUM_TOLERANCE = 1e-6


def _where(index: tuple[int, ...]) -> str:
    if not index:
        return ""
    return f" at index {index[0] if len(index) == 1 else index}"


def reject(name: str, values: NDArray[Any], bad: NDArray[np.bool_], rule: str, hint: str = "") -> None:
    """Raise a ValueError for the first value that is marked in `bad`, if there is one."""
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} {rule}; got {values[index]!s}{_where(index)}{hint}")


def numbers(name: str, value: Any) -> Floats:
    """Return finite real numbers of any shape as an array.

    Raises a TypeError for anything that is not a number, a ValueError for NaN and infinity.
    """
    try:
        given = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} must be a number or a rectangular array of numbers; got {value!r}"
        ) from None
    if given.dtype.kind not in "biuf" and not (given.dtype.kind == "O" and _all_real(given)):
        raise TypeError(f"{name} must be a number or an array of numbers; got {value!r}")
    if np.ma.isMaskedArray(value) and np.ma.is_masked(value):
        raise ValueError(f"{name} must not have masked entries; got {value!r}")
    try:
        array = given.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} must be finite; got an integer that is too large for a float") from None
    reject(name, array, ~np.isfinite(array), "must be finite")
    return array


_FLOATS = np.dtype(np.float64)


def plain_row(value: Any, count: int) -> list[float] | tuple[float, ...] | None:
    """Return `value` as plain numbers if it is a list, tuple or array of `count` floats; else None.

    Nothing else is checked: the numbers may be infinite or NaN.
    """
    kind = type(value)
    if kind is np.ndarray:
        row: list[float] = value.tolist() if value.ndim == 1 and value.dtype is _FLOATS else []
        return row if len(row) == count else None
    if (kind is not list and kind is not tuple) or len(value) != count:
        return None
    for number in value:
        if type(number) is not float:
            return None
    numbers_: list[float] | tuple[float, ...] = value
    return numbers_


def _all_real(values: NDArray[Any]) -> bool:
    """Whether all values convert to float: fractions, decimals, big integers do; None and text do not."""
    return all(hasattr(v, "__float__") for v in values.ravel())


def probabilities(name: str, value: Any) -> Floats:
    """Return numbers in [0, 1] as an array; raise a ValueError otherwise."""
    array = numbers(name, value)
    looks_percent = bool(array.size) and float(array.max()) > 1 and array.min() >= 0 and array.max() <= 100
    hint = " (a percentage? divide by 100)" if looks_percent else ""
    reject(name, array, (array < 0) | (array > 1), "must lie in [0, 1]", hint)
    return array


def distribution(name: str, value: Any, *, simplex: bool) -> Floats:
    """Return class probabilities, with the classes on the last axis; with `simplex` they must sum to 1."""
    array = probabilities(name, value)
    if array.ndim == 0 or array.shape[-1] < 2:
        raise ValueError(f"{name} must have at least two classes on its last axis; got shape {array.shape}")
    if simplex:
        sums = array.sum(axis=-1)
        reject(f"the sum of {name}", sums, np.abs(sums - 1) > SUM_TOLERANCE, "over its last axis must be 1")
    return array


def binary_outcomes(name: str, value: Any) -> Floats:
    """Return outcomes, each 0 or 1, as an array of floats; raise a ValueError otherwise."""
    array = numbers(name, value)
    reject(name, array, (array != 0) & (array != 1), "must be 0 or 1")
    return array


def class_indices(name: str, value: Any, classes: int) -> NDArray[np.intp]:
    """Return outcomes that are class indices, 0 … classes-1; raise a ValueError otherwise."""
    array = numbers(name, value)
    bad = (array < 0) | (array >= classes) | (array != np.floor(array))
    reject(name, array, bad, f"must be a class index, one of 0 … {classes - 1}")
    return array.astype(np.intp)


def outcome(value: Any, classes: int | None, *, graded: bool = False) -> Any:
    """Return one outcome: 0 or 1, or with `classes` a class index; raise a ValueError otherwise.

    With `graded` it is any number in [0, 1].
    """
    if type(value) is int and 0 <= value < (classes or 2):
        return value
    if graded:
        return within("outcome", float(value) if _is_bool(value) else value, 0.0, 1.0)
    if classes is None:
        array = binary_outcomes("outcome", value)
    else:
        array = class_indices("outcome", value, classes).astype(np.float64)
    if array.ndim:
        raise ValueError(f"outcome must be one number; got shape {array.shape}")
    return int(array)


def pairs(name: str, value: Any) -> Floats:
    """Return an array whose last axis is (value if y = 0, value if y = 1)."""
    array = numbers(name, value)
    if array.ndim == 0 or array.shape[-1] != 2:
        raise ValueError(f"{name} must have a last axis of length 2, (if 0, if 1); got shape {array.shape}")
    return array


def together(**arrays: Floats) -> None:
    """Raise a ValueError that names the arrays if they do not broadcast."""
    try:
        np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"shapes must broadcast; got {shapes}") from None


def plain(array: Any) -> Any:
    """Return a scalar as a Python number, and any other array as it is."""
    return array.item() if np.ndim(array) == 0 else array


def positive(name: str, value: Any) -> float:
    """Return one finite number above 0; raise a ValueError otherwise."""
    number = numbers(name, value)
    if number.ndim or number <= 0 or _is_bool(value):
        raise ValueError(f"{name} must be one number above 0; got {value!r}")
    return float(number)


def scalar(name: str, value: Any) -> float:
    """Return one finite number; raise a ValueError otherwise."""
    number = numbers(name, value)
    if number.ndim or _is_bool(value):
        raise ValueError(f"{name} must be one number; got {value!r}")
    return float(number)


def _is_bool(value: Any) -> bool:
    """Whether it is True or False, which is no amount of money."""
    return isinstance(value, (bool, np.bool_))


def within(name: str, value: Any, low: float, high: float) -> float:
    """Return one number in [low, high]; raise a ValueError otherwise."""
    number = positive(name, value) if low > 0 else scalar(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}]; got {value!r}")
    return number


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return one integer that is at least `least` and at most `most`; raise a ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,}; got {value:,}")
    return int(value)


def interval(name: str, value: Any) -> tuple[float, float]:
    """Return a pair (low, high) of finite numbers with low <= high; raise a ValueError otherwise."""
    pair = numbers(name, value)
    if pair.shape != (2,) or pair[0] > pair[1]:
        raise ValueError(f"{name} must be a pair (low, high) with low <= high; got {value!r}")
    return float(pair[0]), float(pair[1])
