"""SoundClassifier: recalibrate a classifier, and certify the half-width c of its forecasts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, check_consistent_length, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.mending.certificate import CertifyingRows, certify, warn_of_little
from makewhole.mending.choosing import UNCHANGED, Choice, MapLesson, Mender, choose, learn
from makewhole.mending.labels import Labeller, take
from makewhole.mending.levels import Levels, Sizes
from makewhole.mending.maps import METHODS, MapSettings
from makewhole.mending.splitting import Fold, Split, plan_certificate, split_rows

_BINS = 15  # how many bins and levels there are if bins="auto"
# How many levels there may be if fewer would harm forecasts that need no mending, and how many rows each
# further level needs: the c of a level with few rows is of no use.
_FINEST = 60
_ROWS_OF_A_LEVEL = 500


class SoundClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Recalibrate a classifier, and forecast intervals [μ − c, μ + c] that are certified.

    `fit` sets rows aside to certify with. It fits the classifier to the others, forecasts them fold by fold
    with classifiers that have not seen the fold, and learns from these held-out forecasts a map to better
    ones. It keeps the map only if its log loss on rows that it has not seen is clearly smaller (`kept_`).
    Forecasts are then rounded to a few levels: μ is the mean forecast of a level. Last, the rows set aside
    bound, for every cell (a level of a group), how far μ may be from the truth: that is its c. The
    classifier, the map and the levels that were certified are those that forecast; nothing is fitted again.

    The promise assumes that the rows set aside and fresh rows are independent draws from the same source
    (with `cluster` in `fit`, that clusters are). Then, with probability at least `confidence` over the rows
    set aside, no bettor who knows the published μ and one column of `groups`, and bets on fresh rows at a
    price of c per unit staked, wins on average. The promise covers all such bets together. It does not cover
    bets that use other features, or two columns of `groups` together (combine them into one), nor data that
    change after `fit`, nor labels that `fit` has not seen. With `sample_weight`, means are weighted means,
    and weights are taken as given.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`; by default logistic regression. Wrap one that is already fitted in
        `sklearn.frozen.FrozenEstimator`; then all rows given are for the map and the certificate, and must be
        rows that it has not learned from. If its forecasts are kept unchanged, nearly all rows certify (if
        `cv` is a number, and there are about 1,700 rows or more).
    c
        "auto": the certified c of each row; or a number from 0 to 1, the c of all rows. `verdict_` then says
        whether it is certified.
    groups
        The groups for which it should be right, besides all rows together: columns of X, by name or by
        number; or a function that takes X and returns a mapping from names to labels, with the same names
        whenever it is called. 1 and "1" are different labels if `fit` sees both. A label that `fit` has not
        seen has no patches. Its c is the widest of its column, which nothing certifies, and
        `predict_interval` warns.
    method
        "histogram": in bins of equal counts, forecast the frequency of each bin. "isotonic": a map that never
        decreases. These two map all rows alike; groups are only certified.
        "multicalibration": first an isotonic map; then, as long as a group or a bin of a group is off by more
        than chance, its log odds are moved to its frequency (after Hébert-Johnson et al. 2018). The isotonic
        map removes the small gaps that are not worth a move each.
        "boosting": small trees on the log odds of the forecast, the groups, and the numbers in X
        (scikit-learn's `HistGradientBoostingClassifier`).
    bins
        How many bins the forecasts are divided into by the histogram, by multicalibration and by the audits;
        and the largest number of levels. There are fewer levels if there are few rows to certify with: the
        number that minimises half the log loss that rounding costs plus a part of the mean c². But there are
        enough to keep 92% of the log loss that the forecasts save against one forecast for all, and to lose
        no more than the map has gained beyond chance. "auto" is 15; but if the forecasts are kept unchanged,
        there may be up to 60 levels, or one per 500 rows if that is more: enough to keep the loss below what
        the rows given could show, 1 / n of log loss per row, or 0.00003 if that is more. With K > 2 classes
        every class has a level, so there can be more.
    cv
        The number of folds, at most as many as the rarest class has rows to learn from. Or a scikit-learn
        splitter, or a list of splits: then the rows to certify with are the test rows of its last split (with
        `TimeSeriesSplit` the latest block), the rows to learn from are those that this split trains on, and
        its other splits are the folds.
    holdout
        The share of the rows to certify with, if `cv` is a number. A larger share makes c narrower, and
        leaves fewer rows to learn from.
    confidence
        The confidence of the certificate and of the audits. Multicalibration moves a cell if chance alone
        would explain its gap with a probability below 1 − confidence.
    max_patches
        The largest number of moves that multicalibration makes.
    random_state
        The seed of the random split, if `cv` is a number.

    Attributes
    ----------
    classes_
        The labels of the classes.
    estimator_
        The classifier, fitted to the rows to learn from.
    kept_
        The method, or "unchanged" if the forecasts of the classifier were kept. `gain_` is the map's gain in
        log loss per row on rows that it has not seen, and `gain_error_` its standard error. A map that has
        not gained more than one standard error is not kept.
    maps_
        The map of each class (with two classes, of the second); none if the forecasts were kept.
    levels_
        The forecast at each level: a row for a level and a column for a class (for two, the second only).
    c_
        The c given; with "auto", the largest certified c of all cells, an upper bound. `mean_c_` is the mean
        c of the rows that certify.
    c_by_group_
        The largest certified c by column and label.
    c_by_cell_
        The certified c by column and label, with a number for each level. A row's c is the largest of its
        cells'. Without groups, the column and the label are "". A cell without rows to certify with has
        c = max(μ, 1 − μ), which cannot be wrong.
    refuted_c_
        The rows set aside refute any constant c below this one: a lower bound on the c that is needed, while
        the certified c is an upper bound.
    verdict_
        "certified", "refuted" or "open": whether the rows set aside show that no bet covered wins, or that
        one does, or neither. With c="auto" it is "certified".
    sound_
        Whether the recalibrated forecasts are not refuted at the c given; with c="auto", at c = 0. This does
        not show that they are sound: see `verdict_`.
    certified_
        The `AuditReport` that certifies, with a cell for every level of every label. Its confidence reads
        1 − 2·(1 − confidence): it counts two sides of each cell, of which only one can make c too small. If
        nearly all rows could certify a frozen estimator's forecasts, it reads more: a fifth of the risk is
        for the case that they are kept, and the rest for the case that they are mended.
    report_
        The `AuditReport` of the recalibrated forecasts of the rows set aside; `raw_report_` is that of the
        classifier's own.
    least_
        The smallest probability that is forecast: 1/(n + 2) after n rows to learn from.

    Examples
    --------
    >>> import makewhole as mw
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(8000, n_informative=8, n_redundant=8, random_state=0)
    >>> mended = mw.SoundClassifier(GaussianNB(), method="isotonic", random_state=0).fit(X, y)
    >>> mended.verdict_, mended.kept_
    ('certified', 'isotonic')
    >>> mended.refuted_c_ < mended.mean_c_ < mended.c_ < 0.2
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
        method: Literal["histogram", "isotonic", "multicalibration", "boosting"] = "multicalibration",
        bins: int | Literal["auto"] = "auto",
        cv: Any = 5,
        holdout: float = 0.4,
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
        self.holdout = holdout
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        cluster: Any = None,
        largest_cluster: float | None = None,
    ) -> Self:
        """Fit the classifier, learn the map from held-out forecasts, and certify c from other rows.

        `sample_weight` weighs the rows, in the fits as in the certificate. `cluster` has a label for each
        row; rows of a cluster may depend on each other, and are not split between learning and certifying.
        `largest_cluster` is a number of rows (a sum of weights) that no cluster can exceed; without it the
        promise holds if no cluster can be larger than the largest one that certifies.

        Raises a ValueError if a setting is out of bounds, if there are fewer than two classes or fewer than
        two rows of a class, or if `cv` leaves no rows to certify with or to learn from. Nothing changes then.
        Warns with a UserWarning if cells have too few rows for a useful certificate.
        """
        fresh = copy(self)
        fresh._fit(X, y, sample_weight, cluster, largest_cluster)  # noqa: SLF001 - a copy, so that a failure changes nothing
        self.__dict__ = fresh.__dict__
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the recalibrated probabilities, with one column per class."""
        check_is_fitted(self)
        mu: Floats = self._look(self._read(X, reset=False)).published
        return np.column_stack([1 - mu[:, 0], mu[:, 0]]) if mu.shape[1] == 1 else mu

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_interval(self, X: Any) -> Any:
        """Return [μ − c, μ + c], cut to [0, 1], for each row.

        μ is the probability of the second class, and the shape is (n, 2). With K > 2 classes there is an
        interval for each, and the shape is (n, K, 2). For a dataframe, a dataframe of the same library is
        returned, with the columns "low" and "high"; with K > 2 classes "low 0", "high 0", "low 1" and so on,
        by the place of the class in `classes_`.

        Warns with a UserWarning if `fit` has not seen a group's label.
        """
        check_is_fitted(self)
        X = self._read(X, reset=False)
        seen = self._look(X)
        c = self._widths(seen)[:, None]
        low, high = np.maximum(seen.published - c, 0.0), np.minimum(seen.published + c, 1.0)
        if hasattr(X, "columns"):
            return _as_frame(X, low, high)
        intervals = np.stack([low, high], axis=-1)
        return intervals[:, 0] if len(self.classes_) == 2 else intervals

    # --- the steps ----------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any, cluster: Any, largest_cluster: Any) -> None:
        self._check_settings()
        if cluster is None and largest_cluster is not None:
            raise ValueError(f"largest_cluster needs cluster, a label for each row; got {largest_cluster!r}")
        X = self._read(X, reset=True)
        y, outcome = self._read_outcomes(X, y)
        weight = None if sample_weight is None else _read_weights(sample_weight, X)
        cluster = None if cluster is None else _read_clusters(cluster, X)
        if weight is not None and not self._takes_weights():
            warnings.warn(
                f"{self._base()!r} takes no sample_weight: weights count in the map and the certificate only",
                stacklevel=3,
            )
        self._labeller, labels = Labeller.learn(self.groups, X)
        split = split_rows(X, outcome, cluster, self.cv, self.holdout, self.random_state)
        self.least_ = 1 / (len(split.learn) + 2)  # n rows cannot show that something is impossible
        self.estimator_ = self._fit_model(X, y, weight, split.learn)
        mended, choice = self._learn_map(X, y, outcome, labels, weight, cluster, split)
        frozen = isinstance(self._base(), FrozenEstimator)
        plan = plan_certificate(split, frozen, choice.kept == UNCHANGED, self.confidence)
        rows = plan.levels
        sizes = self._sizes(labels, len(plan.certify), plan.confidence)
        most, finest = self._level_counts(len(y))
        ones = np.ones(len(y)) if weight is None else weight
        self._levels = Levels.learn(mended[rows], ones[rows], most, sizes, choice.spare(len(y)), finest)
        self.levels_ = self._levels.values

        def look(rows: Any) -> tuple[CertifyingRows, _Seen]:
            made = CertifyingRows(
                outcome[rows], take(labels, rows), _some(weight, rows), _some(cluster, rows), largest_cluster
            )
            return made, self._look(_safe_indexing(X, rows), made.labels)

        known = {name: np.unique(values) for name, values in labels.items()}
        certifying = look(plan.certify)
        self._certify(*certifying, known, plan.confidence)
        self._audit(*(certifying if plan.certify is split.certify else look(split.certify)))

    def _read_outcomes(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return y, and the number of each outcome's class."""
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        check_classification_targets(y)
        self.classes_, outcome = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes; got one class, {self.classes_.tolist()}")
        if isinstance(self._base(), FrozenEstimator):
            known = np.asarray(self._base().classes_)
            if not np.isin(self.classes_, known).all():
                raise ValueError(
                    f"y must have only classes that the frozen estimator knows, {known.tolist()}; got "
                    f"{np.setdiff1d(self.classes_, known).tolist()} (fit it on all classes)"
                )
            self.classes_, outcome = known, np.searchsorted(known, np.asarray(y))
        elif int(np.bincount(outcome).min()) < 2:
            label = self.classes_[int(np.bincount(outcome).argmin())]
            raise ValueError(f"y must have at least two rows of every class; got one of {label!s}")
        return np.asarray(y), outcome

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Return a dataframe as it is, since a pipeline may need its columns; anything else as an array."""
        if hasattr(X, "columns"):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False}
        return validate_data(self, X, reset=reset, **options)

    def _check_settings(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        number = isinstance(self.c, (int, float, np.integer, np.floating))
        if (not isinstance(self.c, str) or self.c != "auto") and not (number and 0 <= float(self.c) <= 1):
            raise ValueError(f"c must be 'auto' or lie in [0, 1]; got {self.c!r}")
        for name, value in {"confidence": self.confidence, "holdout": self.holdout}.items():
            if not 0 < arguments.scalar(name, value) < 1:
                raise ValueError(f"{name} must lie between 0 and 1; got {value!r}")
        if not isinstance(self.bins, str) or self.bins != "auto":
            arguments.whole("bins", self.bins, least=1)
        if isinstance(self.cv, str) or not (hasattr(self.cv, "split") or np.iterable(self.cv)):
            arguments.whole("cv", self.cv, least=2)
        arguments.whole("max_patches", self.max_patches, least=0)
        if not hasattr(self._base(), "predict_proba"):
            raise TypeError(f"estimator must have predict_proba; got {self.estimator!r}")

    def _fit_model(self, X: Any, y: Any, weight: Floats | None, rows: Any) -> Any:
        """Fit the classifier to some rows; a frozen one stays as it is."""
        base = clone(self._base())
        if weight is not None and has_fit_parameter(base, "sample_weight"):
            return base.fit(_safe_indexing(X, rows), y[rows], sample_weight=weight[rows])
        return base.fit(_safe_indexing(X, rows), y[rows])

    def _takes_weights(self) -> bool:
        base = self._base()
        return isinstance(base, FrozenEstimator) or has_fit_parameter(base, "sample_weight")

    def _raw(self, model: Any, X: Any) -> Floats:
        """Return a classifier's probabilities, in one column for two classes, else in one for each."""
        given = np.asarray(model.predict_proba(X), dtype=np.float64)
        classes = np.asarray(getattr(model, "classes_", self.classes_))
        if len(classes) != len(self.classes_):  # a fold that lacked a class
            every = np.zeros((len(given), len(self.classes_)))
            every[:, np.searchsorted(self.classes_, classes)] = given
            given = every
        return given[:, 1:] if given.shape[1] == 2 else given

    def _learn_map(
        self,
        X: Any,
        y: Any,
        outcome: Any,
        labels: Any,
        weight: Floats | None,
        cluster: Any,
        split: Split,
    ) -> tuple[Floats, Choice]:
        """Learn the map from held-out forecasts, and choose whether to keep it.

        Returns the mapped forecasts, with a row for each row of X (missing if none was held out), and the
        choice.
        """
        raw = np.full((len(y), 1 if len(self.classes_) == 2 else len(self.classes_)), np.nan)
        if isinstance(self._base(), FrozenEstimator):
            raw[split.learn] = self._raw(self.estimator_, _safe_indexing(X, split.learn))
        else:
            for train, test in split.folds:
                raw[test] = self._raw(self._fit_model(X, y, weight, train), _safe_indexing(X, test))
        known = np.flatnonzero(~np.isnan(raw).any(axis=1))
        place = np.full(len(y), -1)
        place[known] = np.arange(len(known))
        inside = [Fold(*(place[part][place[part] >= 0] for part in fold)) for fold in split.folds]
        features = _numbers(X) if self.method == "boosting" else None
        ones = np.ones(len(y)) if weight is None else weight
        lesson = MapLesson(raw, outcome, labels, features, ones, cluster).take(known)
        settings = MapSettings(self._bins(), self.confidence, self.max_patches)
        choice = choose(lesson, inside, self.method, settings, self.least_)
        self.kept_, self.gain_, self.gain_error_ = choice
        mender = Mender((), self.least_)
        if self.kept_ != UNCHANGED:
            mender = learn(lesson, self.method, settings, self.least_)
        self.maps_: tuple[Any, ...] = mender.maps
        raw[known] = mender(lesson.raw, lesson.labels, lesson.features)
        return raw, choice

    def _bins(self) -> int:
        return _BINS if isinstance(self.bins, str) else self.bins

    def _level_counts(self, rows: int) -> tuple[int, int | None]:
        """Return the largest number of levels, and the largest if fewer would do harm; None if the same."""
        unchanged = self.kept_ == UNCHANGED
        finest = max(_FINEST, rows // _ROWS_OF_A_LEVEL)
        return self._bins(), finest if unchanged and isinstance(self.bins, str) else None

    def _sizes(self, labels: Any, rows: int, confidence: float) -> Sizes:
        counts = [np.unique(values, return_counts=True)[1] for values in labels.values()]
        counts = counts or [np.ones(1, dtype=np.int64)]
        most = max(counts, key=len)
        tests = sum(map(len, counts)) * (1 if len(self.classes_) == 2 else len(self.classes_))
        return Sizes(rows, most / most.sum(), tests, confidence)

    def _look(self, X: Any, labels: Any = None) -> _Seen:
        """Return the classifier's and its map's forecasts for new rows, whose labels may be known."""
        labels = self._labeller.read(X) if labels is None else labels
        raw = self._raw(self.estimator_, X)
        mender = Mender(self.maps_, self.least_)
        features = _numbers(X) if self.method == "boosting" else None
        levels = self._levels.place(mender(raw, labels, features))
        return _Seen(raw, labels, levels, self.levels_[levels])

    def _certify(self, evidence: CertifyingRows, seen: _Seen, known: Any, confidence: float) -> None:
        """Certify c from rows that nothing has learned from."""
        certificate = certify(evidence, seen.levels, self.levels_, known, confidence)
        self._certificate, self.certified_ = certificate, certificate.report
        self.c_by_cell_ = certificate.c
        self.c_by_group_ = {
            name: {label: float(widths.max()) for label, widths in by_label.items()}
            for name, by_label in certificate.c.items()
            if name
        }
        self.c_ = certificate.widest if self.c == "auto" else float(self.c)
        self.mean_c_ = float(np.average(self._widths(seen), weights=evidence.weight))
        warn_of_little(evidence, seen.levels, certificate, self.confidence)

    def _audit(self, evidence: CertifyingRows, seen: _Seen) -> None:
        """Audit the rows set aside, before and after recalibration."""
        options: dict[str, Any] = {"bins": self._bins(), "confidence": self.confidence}
        self.raw_report_ = evidence.audit(seen.raw, **options)
        self.report_ = evidence.audit(seen.published, c=None if self.c == "auto" else self.c_, **options)
        self.refuted_c_ = self.report_.smallest_c
        self.sound_ = self.report_.sound
        certified = self._certificate.widest <= self.c_
        self.verdict_ = "certified" if certified else "open" if self.sound_ else "refuted"

    def _widths(self, seen: _Seen) -> Floats:
        """Return each row's c: the largest of its cells'; for a new label the widest of its column."""
        widths, unseen = self._certificate.widths(seen.levels, seen.labels)
        for name, values in unseen.items():
            shown = ", ".join(map(repr, values[:5])) + (", …" if len(values) > 5 else "")
            warnings.warn(
                f"groups[{name!r}] has labels that were not there in fit, {shown}: they get the widest c of "
                "their column, which is not certified for them",
                stacklevel=3,
            )
        return widths if self.c == "auto" else np.full(len(widths), self.c_)


class _Seen(NamedTuple):
    """Rows as the classifier sees them: its own forecasts, the labels, levels and published forecasts."""

    raw: Floats
    labels: Any
    levels: Any
    published: Floats


def _some(values: Any, rows: Any) -> Any:
    return None if values is None else values[rows]


def _read_weights(sample_weight: Any, X: Any) -> Floats:
    weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64)
    arguments.reject("sample_weight", weight, weight < 0, "must not be negative")
    if not weight.any():  # older versions of scikit-learn do not check
        raise ValueError("sample_weight must be more than 0 for some row; got zeros only")
    return weight


def _read_clusters(cluster: Any, X: Any) -> Any:
    labels = np.asarray(cluster)
    if labels.ndim != 1:
        raise ValueError(f"cluster must be one label for each row; got shape {labels.shape}")
    check_consistent_length(X, labels)
    return np.unique(labels.astype(str), return_inverse=True)[1]


def _numbers(X: Any) -> Floats | None:
    """Return the numbers in X, a column each; None if there are none, or X is sparse."""
    if hasattr(X, "todense"):
        return None
    if hasattr(X, "columns"):
        import narwhals.selectors as ncs

        numeric = frames.open_native(X).select(ncs.numeric())
        columns = [column.to_numpy().astype(np.float64) for column in numeric.iter_columns()]
        return np.column_stack(columns) if columns else None
    array = np.asarray(X)
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None


def _as_frame(X: Any, low: Floats, high: Floats) -> Any:
    """Return the ends of the intervals as a dataframe of X's library, with X's index."""
    columns = {"low": low[:, 0], "high": high[:, 0]}
    if low.shape[1] > 1:
        ends = {"low": low, "high": high}
        columns = {f"{end} {k}": ends[end][:, k] for k in range(low.shape[1]) for end in ends}
    made = frames.make_frame(columns, frames.backend_of(frames.open_native(X)))
    return made.set_axis(X.index) if hasattr(X, "index") and hasattr(made, "set_axis") else made
