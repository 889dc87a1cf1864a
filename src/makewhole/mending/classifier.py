"""SoundClassifier: recalibrate a classifier until an audit does not refute it, and say how wide c must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing, check_consistent_length, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    assert_all_finite,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.auditing.audit import audit_arrays
from makewhole.auditing.labels import Label, label_of, name_labels
from makewhole.mending.maps import METHODS, Settings


class Fold(NamedTuple):
    """The rows of one fold: those to learn from, and those held out."""

    train: Any
    test: Any


class SoundClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Recalibrate a classifier, and forecast intervals [μ − c, μ + c] that the data do not refute.

    `fit` splits the data into folds. It fits the classifier on the others and forecasts each fold; from these
    held-out forecasts it learns a map to better ones, and audits the mapped forecasts (again held out). μ is
    the mapped probability, and c the half-width of the interval that you can stand behind.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`; by default logistic regression.
    c
        "auto": the smallest c that the audit of the held-out forecasts does not refute; or a number from 0 to
        1. A c that is not refuted is not proven: few rows refute little. `report_.mce.high` is an upper bound
        on the largest gap.
    groups
        The groups for which it should be right, besides all rows together: columns of X, by name or by
        number; or a function that takes X and returns a mapping from names to labels, with the same names
        whenever it is called. 1 and "1" are different labels if `fit` sees both. A label that `fit` has not
        seen has no patches of its own, and its c is `c_`.
    method
        "histogram": in bins of equal counts, forecast the frequency of each bin. "isotonic": a map that never
        decreases. These two map all rows alike; groups are only audited.
        "multicalibration": first an isotonic map; then, as long as a group or a bin of a group is off by more
        than chance, its log odds are moved to its frequency (after Hébert-Johnson et al. 2018). The isotonic
        map removes the small gaps that are not worth a move each.
    bins
        How many bins the forecasts are divided into: by the histogram, by multicalibration, and by the audit.
        More bins mend and find errors in narrower ranges of the forecast; each then rests on fewer rows. 15
        suits thousands of rows; take about 5 for hundreds.
    cv
        How many folds; at most as many as the rarest class has rows.
    confidence
        The confidence of the audit. Multicalibration moves what chance alone would explain with a probability
        below 1 − confidence.
    max_patches
        The largest number of moves that multicalibration makes.
    random_state
        The seed of the shuffle before the folds are made.

    Attributes
    ----------
    classes_
        The labels of the classes.
    estimator_
        The classifier, fitted to all rows.
    report_
        The `AuditReport` of the recalibrated forecasts, held out; `raw_report_` is that of the classifier's
        own.
    least_
        The smallest probability that is forecast: 1/(n + 2) after n rows.
    sound_
        Whether the held-out forecasts are not refuted at the c given; with c="auto", at c = 0.
    c_
        The half-width: the one given, or the smallest that neither all rows nor any group refutes.
    c_by_group_
        With c="auto", the smallest c by column and label. A row's c is then the largest of its groups'.

    Examples
    --------
    >>> import makewhole as mw
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(4000, n_informative=8, random_state=0)
    >>> mended = mw.SoundClassifier(GaussianNB(), method="isotonic").fit(X, y)
    >>> mended.report_.smallest_c < mended.raw_report_.smallest_c
    True
    >>> mended.predict_interval(X[:5]).shape
    (5, 2)

    References
    ----------
    Hébert-Johnson, Kim, Reingold & Rothblum (2018), "Multicalibration: Calibration for the
    (Computationally-Identifiable) Masses". Zadrozny & Elkan (2001, 2002) for histograms and isotonic maps.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        c: float | Literal["auto"] = "auto",
        groups: Sequence[Any] | Callable[[Any], Mapping[str, Any]] | None = None,
        method: Literal["histogram", "isotonic", "multicalibration"] = "multicalibration",
        bins: int = 15,
        cv: int = 5,
        confidence: float = 0.95,
        max_patches: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.c = c
        self.groups = groups
        self.method = method
        self.bins = bins
        self.cv = cv
        self.confidence = confidence
        self.max_patches = max_patches
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self._base())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    def _base(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier, learn the map from held-out forecasts, and audit held-out mapped ones.

        Raises a ValueError if a setting is out of bounds, or if there are fewer than two classes, or fewer
        than two rows of a class.
        """
        self._check_settings()
        X = self._read(X, reset=True)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        check_classification_targets(y)
        self.classes_, outcome = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes; got one class, {self.classes_.tolist()}")
        self._label_names: dict[str, dict[Label, str]] | None = None  # learned from these X
        labels = self._labels(X)
        folds = self._folds(outcome)
        raw = self._held_out(X, np.asarray(y), folds)
        self.estimator_ = clone(self._base()).fit(X, y)
        self.least_ = 1 / (len(outcome) + 2)  # so few rows cannot show that something is impossible
        mended = np.empty_like(raw)
        for train, test in folds:
            maps = self._maps(raw[train], outcome[train], _take(labels, train))
            mended[test] = _apply(maps, raw[test], _take(labels, test), self.least_)
        self.maps_ = self._maps(raw, outcome, labels)
        self.raw_report_ = self._audit(raw, outcome, labels, None)
        self.report_ = self._audit(mended, outcome, labels, None)
        self.c_ = self.report_.smallest_c
        self.c_by_group_ = {
            column: {value: finding.smallest_c for value, finding in findings.items()}
            for column, findings in self.report_.groups.items()
        }
        if self.c != "auto":
            self.c_ = float(self.c)
            self.report_ = self._audit(mended, outcome, labels, self.c_)
        self.sound_ = self.report_.sound
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the recalibrated probabilities, with one column per class."""
        check_is_fitted(self)
        X = self._read(X, reset=False)
        raw = _columns(self.estimator_.predict_proba(X))
        mended = _apply(self.maps_, raw, self._labels(X), self.least_)
        return np.column_stack([1 - mended[:, 0], mended[:, 0]]) if mended.shape[1] == 1 else mended

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_interval(self, X: Any) -> Floats:
        """Return [μ − c, μ + c], cut to [0, 1], for each row.

        μ is the probability of the second class, and the shape is (n, 2). With K > 2 classes there is an
        interval for each, and the shape is (n, K, 2).
        """
        check_is_fitted(self)
        mu, c = self.predict_proba(X), self._widths(self._read(X, reset=False))[:, None]
        mu = mu[:, 1:] if len(self.classes_) == 2 else mu
        intervals = np.stack([np.maximum(mu - c, 0.0), np.minimum(mu + c, 1.0)], axis=-1)
        return intervals[:, 0] if len(self.classes_) == 2 else intervals

    # --- the steps ----------------------------------------------------------------------------------------

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Return a dataframe as it is, since a pipeline may need its columns; anything else as an array."""
        if hasattr(X, "columns"):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False}
        return validate_data(self, X, reset=reset, **options)

    def _check_settings(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        number = not isinstance(self.c, str) and np.ndim(self.c) == 0
        if (not isinstance(self.c, str) or self.c != "auto") and not (number and 0 <= float(self.c) <= 1):
            raise ValueError(f"c must be 'auto' or lie in [0, 1]; got {self.c!r}")
        if not 0 < arguments.scalar("confidence", self.confidence) < 1:
            raise ValueError(f"confidence must lie between 0 and 1; got {self.confidence!r}")
        arguments.whole("bins", self.bins, least=1)
        arguments.whole("cv", self.cv, least=2)
        arguments.whole("max_patches", self.max_patches, least=0)
        if not hasattr(self._base(), "predict_proba"):
            raise TypeError(f"estimator must have predict_proba; got {self.estimator!r}")

    def _folds(self, outcome: Any) -> list[Fold]:
        fewest = int(np.bincount(outcome).min())
        if fewest < 2:
            label = self.classes_[int(np.bincount(outcome).argmin())]
            raise ValueError(f"y must have at least two rows of every class; got one of {label!s}")
        split = StratifiedKFold(min(self.cv, fewest), shuffle=True, random_state=self.random_state)
        return [Fold(*rows) for rows in split.split(outcome, outcome)]

    def _held_out(self, X: Any, y: Any, folds: list[Fold]) -> Floats:
        """Forecast each fold with a classifier that is fitted to the others."""
        raw = np.empty((len(y), 1 if len(self.classes_) == 2 else len(self.classes_)))
        for train, test in folds:
            fitted = clone(self._base()).fit(_safe_indexing(X, train), y[train])
            raw[test] = _columns(fitted.predict_proba(_safe_indexing(X, test)))
        return raw

    def _labels(self, X: Any) -> dict[str, Any]:
        """Return the labels of all rows, by the name of their column or the name that the function gives."""
        if self.groups is None:
            return {}
        if callable(self.groups):
            given = self.groups(X)
            if not isinstance(given, Mapping):
                raise TypeError(f"groups must give a mapping from names to labels; got {given!r}")
        else:
            columns = [self.groups] if isinstance(self.groups, (str, int)) else list(self.groups)
            given = {column: _column(X, column) for column in columns}
        rows = _num_samples(X)
        for name, values in given.items():
            if np.shape(values) != (rows,):
                raise ValueError(f"groups[{name!r}] must be {rows} labels; got shape {np.shape(values)}")
        names = name_labels(label_of(name) for name in given)
        labels = {names[label_of(name)]: [label_of(v) for v in values] for name, values in given.items()}
        if self._label_names is None:
            self._label_names = {name: name_labels(values) for name, values in labels.items()}
        self._check_names(list(labels))
        return {name: _named(values, self._label_names[name]) for name, values in labels.items()}

    def _check_names(self, names: list[str]) -> None:
        """Raise a ValueError if the function `groups` names other groupings than it did for `fit`."""
        known = self._label_names or {}
        wrong = [name for name in names if name not in known] or [name for name in known if name not in names]
        if wrong:
            got = f"{wrong[0]!r}" if wrong[0] in names else f"no {wrong[0]!r}"
            raise ValueError(
                f"groups must give the names that it gave for fit, {', '.join(map(repr, known)) or 'none'}; "
                f"got {got} (return the same names for every X, or fit again)"
            )

    def _maps(self, raw: Floats, outcome: Any, labels: dict[str, Any]) -> list[Any]:
        """Learn a map for each class; with two classes only for the second."""
        settings = Settings(self.bins, self.confidence, self.max_patches)
        return [
            METHODS[self.method](p, (outcome == k + (raw.shape[1] == 1)).astype(np.float64), labels, settings)
            for k, p in enumerate(raw.T)
        ]

    def _audit(self, said: Floats, outcome: Any, labels: dict[str, Any], c: float | None) -> Any:
        most = max([1000, *(len(np.unique(values)) for values in labels.values())])
        options = {"bins": self.bins, "confidence": self.confidence, "max_groups": most}
        return audit_arrays(outcome, said[:, 0] if said.shape[1] == 1 else said, labels, c=c, **options)

    def _widths(self, X: Any) -> Floats:
        """Return each row's c: the largest of its groups' and of all rows together; `c_` for a new group."""
        if self.c != "auto" or not self.c_by_group_:
            return np.full(_num_samples(X), self.c_)
        table = self.report_.table
        everyone = [k for k, group in enumerate(table["group"]) if not group]
        width = np.full(_num_samples(X), np.max(np.asarray(table["smallest_c"])[everyone]))
        for name, values in self._labels(X).items():
            known = self.c_by_group_[name]
            width = np.maximum(width, [known.get(value, self.c_) for value in values])
        return width


def _columns(probability: Any) -> Floats:
    """Return the probabilities as one column for two classes, else one for each class."""
    array = np.asarray(probability, dtype=np.float64)
    return array[:, 1:] if array.shape[1] == 2 else array


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
    """Return the labels' names, as an array; one that was not seen in `fit` is named as it reads."""
    return np.array([names.get(value, value.text) for value in values], dtype=str)


def _take(labels: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: values[rows] for name, values in labels.items()}


def _apply(maps: list[Any], raw: Floats, labels: dict[str, Any], least: float) -> Floats:
    """Map each class by its own map, to at least `least`; several classes are then scaled to add up to 1."""
    mapped = np.column_stack([one(p, labels) for one, p in zip(maps, raw.T, strict=True)])
    mended: Floats = np.clip(mapped, least, 1 - least)
    if mended.shape[1] == 1:
        return mended
    added: Floats = least + (1 - mended.shape[1] * least) * mended / mended.sum(axis=1, keepdims=True)
    return added
