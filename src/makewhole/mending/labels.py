"""Read the groups of rows from X: from its columns, or from a function of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import _num_samples

from makewhole.auditing.labels import Label, label_of, name_labels

Labels = dict[str, Any]  # by the name of a grouping, an array with every row's label


@dataclass(frozen=True)
class Labeller:
    """Reads the labels of all rows, by the name of their column or the name that the function gives.

    `names` has, for each grouping, the names of the labels that were there when it was learned.
    """

    groups: Any
    names: dict[str, dict[Label, str]]

    @classmethod
    def learn(cls, groups: Any, X: Any) -> tuple[Self, Labels]:
        """Learn the names of the groupings and of their labels from X; also return its labels."""
        labels = _read(groups, X)
        learned = cls(groups, {name: name_labels(values) for name, values in labels.items()})
        return learned, {name: _named(values, learned.names[name]) for name, values in labels.items()}

    def read(self, X: Any) -> Labels:
        """Return every row's label in each grouping; an unseen label is named as it reads."""
        labels = _read(self.groups, X)
        self._check_names(list(labels))
        return {name: _named(values, self.names[name]) for name, values in labels.items()}

    def _check_names(self, names: list[str]) -> None:
        """Raise a ValueError if the function `groups` names other groupings than it did in `fit`."""
        known = self.names
        wrong = [name for name in names if name not in known] or [name for name in known if name not in names]
        if wrong:
            got = f"{wrong[0]!r}" if wrong[0] in names else f"no {wrong[0]!r}"
            raise ValueError(
                f"groups must give the names that it gave for fit, {', '.join(map(repr, known)) or 'none'}; "
                f"got {got} (return the same names for every X, or fit again)"
            )


def take(labels: Labels, rows: Any) -> Labels:
    """Return the labels of some of the rows."""
    return {name: values[rows] for name, values in labels.items()}


def _read(groups: Any, X: Any) -> dict[str, list[Label]]:
    if groups is None:
        return {}
    if callable(groups):
        given = groups(X)
        if not isinstance(given, Mapping):
            raise TypeError(f"groups must give a mapping from names to labels; got {given!r}")
    else:
        columns = [groups] if isinstance(groups, (str, int)) else list(groups)
        given = {column: _column(X, column) for column in columns}
    rows = _num_samples(X)
    for name, values in given.items():
        if np.shape(values) != (rows,):
            raise ValueError(f"groups[{name!r}] must be {rows} labels; got shape {np.shape(values)}")
    names = name_labels(label_of(name) for name in given)
    return {names[label_of(name)]: _labels_of(values) for name, values in given.items()}


def _labels_of(values: Any) -> list[Label]:
    """Return the label of every value; equal values of a type are read only once."""
    known: dict[Any, Label] = {}
    labels = []
    for value in values:
        key = type(value), value
        try:
            label = known[key]
        except KeyError:
            label = known[key] = label_of(value)
        except TypeError:  # unhashable
            label = label_of(value)
        labels.append(label)
    return labels


def _column(X: Any, column: Any) -> Any:
    """Return the labels in one column of X, given by name or number."""
    if hasattr(X, "columns"):
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        if column not in names and not (isinstance(column, int) and 0 <= column < len(names)):
            raise ValueError(
                f"groups must be columns of X, {', '.join(map(str, names[:20]))}; got {column!r}"
            )
        place = names.index(column) if column in names else column
        series = X.iloc[:, place] if hasattr(X, "iloc") else X[names[place]]
        return np.array(series.to_list() if hasattr(series, "to_list") else series.to_pylist(), dtype=object)
    if not isinstance(column, (int, np.integer)) or not 0 <= column < np.shape(X)[1]:
        raise ValueError(f"groups must be columns of X, by number for an array; got {column!r}")
    return np.asarray(X[:, column].todense()).ravel() if hasattr(X, "todense") else np.asarray(X)[:, column]


def _named(values: list[Label], names: dict[Label, str]) -> Any:
    """Return the labels' names, as an array; a label that `fit` has not seen is named as it reads."""
    return np.array([names.get(value, value.text) for value in values], dtype=str)
