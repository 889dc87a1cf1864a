"""The c of SoundClassifier is an upper bound: on data whose truth is known no bet that is covered wins."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

import makewhole as mw
from makewhole.mending import maps
from makewhole.mending.certificate import CertifyingRows, certify
from simulated import GRID, Said, all_rows, draw_rows, forecasts, frozen, promise_holds

METHODS: Any = ("histogram", "isotonic", "multicalibration", "boosting")


def fit(rows: int, seed: int, **options: Any) -> mw.SoundClassifier:
    X, y = draw_rows(rows, seed)
    with warnings.catch_warnings():  # a hundred rows are too few, and it says so
        warnings.simplefilter("ignore", UserWarning)
        return mw.SoundClassifier(frozen(), groups=[1], random_state=seed, **options).fit(X, y)


@pytest.mark.slow
def test_what_is_certified_is_true() -> None:
    held = [promise_holds(fit(1000, seed, method="isotonic", confidence=0.8)) for seed in range(5)]
    assert sum(held) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, pytest.param(25, marks=pytest.mark.long)])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_certified_is_true_in_the_share_of_fits_that_is_promised(
    method: Any, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At confidence 0.8 some of 300 fits do fail, so the test would notice a c that is too small."""
    monkeypatch.setitem(maps._TREES, "max_iter", 10)  # the promise does not depend on how good the trees are
    fits = [(rows, seed) for rows in (100, 1000, 10_000) for seed in range(seeds)]
    held = [promise_holds(fit(rows, seed, method=method, confidence=0.8)) for rows, seed in fits]
    assert sum(held) >= 0.8 * len(fits)
    for seed in range(3):  # the test can tell: a third of c is not enough
        narrow = fit(10_000, seed, method=method, confidence=0.8)
        for widths in narrow.c_by_cell_["1"].values():
            widths /= 3
        assert not promise_holds(narrow)


@pytest.mark.slow
@pytest.mark.parametrize("fits", [24, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("bias", [1.0, 1.4])
def test_forecasts_that_are_kept_are_certified_by_nearly_all_rows_and_the_promise_holds(
    bias: float, fits: int
) -> None:
    """With bias 1.4 some fits keep the forecasts and some mend them, by the rows that then certify."""
    held, kept = [], []
    for seed in range(fits):
        X, y = forecasts(2000, seed, bias)
        with warnings.catch_warnings():  # 20 groups have few rows each
            warnings.simplefilter("ignore", UserWarning)
            model = mw.SoundClassifier(
                frozen(), groups=[1], method="isotonic", confidence=0.8, random_state=seed
            )
            model.fit(X, y)
        kept.append(model.kept_ == "unchanged")
        mu, c = model.predict_proba(on_grid(bias))[:, 1], narrowest(model)
        level = np.argmin(np.abs(mu[:, None] - model.levels_[:, 0]), axis=1)
        held.append(all(abs(GRID[mu == v].mean() - v) <= c[level[mu == v][0]] + 1e-12 for v in np.unique(mu)))
    assert sum(held) >= 0.8 * len(held)
    assert sum(kept) >= fits / 12
    assert bias == 1.0 or sum(kept) <= fits * 11 / 12


def on_grid(bias: float) -> Any:
    return np.column_stack([expit(bias * logit(GRID)), np.zeros(len(GRID))])


def narrowest(model: mw.SoundClassifier) -> Any:
    """The c of each level: the narrowest of all groups', which are alike."""
    return np.min(list(model.c_by_cell_["1"].values()), axis=0)


def test_risk_is_shared_where_either_choice_could_have_been_certified() -> None:
    X, y = forecasts(3000, 0, 1.0)
    kept = mw.SoundClassifier(frozen(), random_state=0).fit(X, y)
    assert kept.kept_ == "unchanged"
    assert (kept.certified_.rows, kept.report_.rows) == (3000 - 500, 1200)  # the levels come from 500 rows
    assert kept.certified_.confidence == pytest.approx(1 - 2 * 0.05 / 5)  # an audit counts two sides
    mended = mw.SoundClassifier(frozen(), random_state=0).fit(*forecasts(3000, 0, 2.5))
    assert mended.certified_.rows == 1200
    assert mended.certified_.confidence == pytest.approx(1 - 2 * 0.04)
    few = mw.SoundClassifier(frozen(), random_state=0).fit(X[:1500], y[:1500])
    assert few.certified_.rows == 600
    assert few.certified_.confidence == pytest.approx(0.9)


@pytest.mark.slow
def test_the_bound_of_a_cell_is_wrong_no_more_often_than_its_share_of_the_risk() -> None:
    """Exactly, by the binomial distribution: the chance that |p − μ| > c is at most the risk of the cell."""
    rows, risk, values = 40, 0.1, np.array([[0.3]])
    widths = []
    for happened in range(rows + 1):
        outcome = (np.arange(rows) < happened).astype(int)
        evidence = CertifyingRows(outcome, {}, None, None)
        found = certify(evidence, np.zeros(rows, dtype=np.int64), values, {}, 1 - risk)
        widths.append(float(found.c[""][""][0]))
    for p in np.linspace(0, 1, 101):
        wrong = np.abs(p - 0.3) > np.array(widths) + 1e-12  # 1 − 0.3 is rounded
        # The cell has half of the risk; all rows together have the other half.
        assert binom.pmf(np.arange(rows + 1)[wrong], rows, p).sum() <= risk / 2


def test_a_row_has_the_c_of_its_widest_cell() -> None:
    X, y = draw_rows(8000, 0)
    X = np.column_stack([X, X[:, 0] > 0.8])
    fitted = mw.SoundClassifier(frozen(), groups=[1, 2], random_state=0).fit(X, y)
    mu, reach = fitted.predict_proba(X)[:, 1], fitted.predict_interval(X)
    for k, value in enumerate(fitted.levels_[:, 0]):
        for a, in_a in fitted.c_by_cell_["1"].items():
            for b, in_b in fitted.c_by_cell_["2"].items():
                here = (mu == value) & (X[:, 1] == float(a)) & (X[:, 2] == float(b))
                c = max(in_a[k], in_b[k])
                expected = np.broadcast_to([max(value - c, 0.0), min(value + c, 1.0)], (here.sum(), 2))
                np.testing.assert_allclose(reach[here], expected)
    largest = {name: max(c.max() for c in found.values()) for name, found in fitted.c_by_cell_.items()}
    assert fitted.c_ == max(largest.values())
    assert fitted.c_by_group_["1"]["0"] == fitted.c_by_cell_["1"]["0"].max()
    assert fitted.refuted_c_ < fitted.mean_c_ < fitted.c_


def test_what_is_published_takes_one_value_for_each_level() -> None:
    fitted = fit(4000, 1)
    assert set(fitted.predict_proba(all_rows())[:, 1]) <= set(fitted.levels_[:, 0])
    assert fitted.kept_ != "unchanged"
    assert 2 <= len(fitted.levels_) <= 15
    assert len(fit(4000, 1, bins=3).levels_) <= 3


def test_a_group_never_seen_has_the_widest_c_of_its_column_and_a_warning() -> None:
    X, y = draw_rows(6000, 2)
    fitted = mw.SoundClassifier(frozen(), groups=[1], random_state=0).fit(X, y)
    new = np.array([[0.5, 7.0]])
    with pytest.warns(UserWarning, match=r"groups\['1'\] has labels that were not there in fit, '7'"):
        low, high = fitted.predict_interval(new)[0]
    mu = fitted.predict_proba(new)[0, 1]
    c = max(fitted.c_by_group_["1"].values())
    assert c > 0
    assert (low, high) == (max(mu - c, 0.0), min(mu + c, 1.0))


def test_a_cell_without_certification_rows_has_the_c_that_cannot_be_wrong() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([0.1, 0.9], 2000), np.zeros(2000)])
    X[:1000, 1] = X[:1000, 0] > 0.5  # group 1 always has the high forecast, group 0 either
    y = (rng.random(2000) < X[:, 0]).astype(int)
    fitted = mw.SoundClassifier(frozen(), groups=[1], random_state=0).fit(X, y)
    low = int(np.argmin(fitted.levels_[:, 0]))
    assert fitted.c_by_cell_["1"]["1"][low] == pytest.approx(1 - fitted.levels_[low, 0])
    assert fitted.c_by_cell_["1"]["0"][low] < 0.2


def test_too_few_rows_for_a_certificate_are_named_and_c_is_never_a_comfortable_zero() -> None:
    X, y = draw_rows(30, 0)
    X[:, 1] = np.arange(30) % 15
    with pytest.warns(UserWarning, match=r"too few certification rows, 12: .* about \d+ would be enough"):
        fitted = mw.SoundClassifier(frozen(), groups=[1], random_state=0).fit(X, y)
    said = fitted.levels_[:, 0]
    for widths in fitted.c_by_cell_["1"].values():
        assert np.all((widths > 0.3) & (widths <= np.maximum(said, 1 - said)))


def test_a_c_of_ones_own_is_certified_refuted_or_open() -> None:
    X, y = draw_rows(20_000, 3)
    found = {
        c: mw.SoundClassifier(frozen(), c=c, groups=[1], method="isotonic", random_state=0).fit(X, y)
        for c in (0.0, 0.17, 0.5)
    }
    assert {c: one.verdict_ for c, one in found.items()} == {0.0: "refuted", 0.17: "open", 0.5: "certified"}
    assert [one.c_ for one in found.values()] == list(found)
    assert [one.sound_ for one in found.values()] == [False, True, True]
    for c, one in found.items():
        mu = one.predict_proba([[0.5, 0.0]])[0, 1]
        np.testing.assert_allclose(one.predict_interval([[0.5, 0.0]])[0], np.clip([mu - c, mu + c], 0, 1))


def test_weights_count_in_the_certificate() -> None:
    """Rows of group 1, drawn ten times too often, weigh a tenth: the mean of all rows is certified."""
    rng = np.random.default_rng(4)
    said, group = np.full(20_000, 0.5), (rng.random(20_000) < 10 / 11).astype(float)
    y = (rng.random(20_000) < np.where(group == 1, 0.9, 0.2)).astype(int)
    X, weight = np.column_stack([said, group]), np.where(group == 1, 0.1, 1.0)
    fitted = mw.SoundClassifier(frozen(), random_state=0).fit(X, y, sample_weight=weight)
    low, high = fitted.predict_interval(X[:1])[0]
    assert low < 0.55 < high < 0.62  # 0.55 is the weighted mean of the truth; unweighted it is 0.84
    plain = mw.SoundClassifier(frozen(), random_state=0).fit(X, y)
    assert plain.predict_interval(X[:1])[0, 0] > 0.8
    with pytest.warns(UserWarning, match=r"Said\(\) takes no sample_weight: weights count in the map"):
        mw.SoundClassifier(Said(), random_state=0).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.fit(X, y, sample_weight=-weight)


def test_rows_of_a_cluster_are_not_divided_and_count_as_one() -> None:
    rng = np.random.default_rng(5)
    day = np.repeat(np.arange(300), 20)
    shared = np.repeat(rng.random(300), 20)
    said = np.full(len(day), 0.5)
    X, y = np.column_stack([said, day]), (shared < 0.5).astype(int)  # all rows of a day end alike
    apart = mw.SoundClassifier(frozen(), random_state=0).fit(X, y)
    together = mw.SoundClassifier(frozen(), random_state=0).fit(X, y, cluster=day)
    assert together.c_ > 2 * apart.c_
    as_text = mw.SoundClassifier(frozen(), random_state=0).fit(X, y, cluster=[f"day {d}" for d in day])
    wide = mw.SoundClassifier(frozen(), random_state=0).fit(X, y, cluster=day, largest_cluster=40)
    assert wide.report_.largest_cluster == 40
    assert wide.c_ > together.c_
    assert as_text.c_ == pytest.approx(together.c_)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_classes_are_certified_together(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(maps._TREES, "max_iter", 10)
    rng = np.random.default_rng(6)
    p = rng.dirichlet([1.0, 1.0, 1.0], 200)

    def some(rows: int) -> tuple[Any, Any]:
        which = rng.integers(0, 200, rows)
        return p[which] + rng.normal(0, 1e-9, (rows, 3)), (
            p[which].cumsum(axis=1) < rng.random((rows, 1))
        ).sum(axis=1)

    X, y = some(6000)
    names = np.array(["cat", "dog", "eel"])
    fitted = mw.SoundClassifier(GaussianNB(), method=method, random_state=0).fit(X, names[y])
    said, reach = fitted.predict_proba(p), fitted.predict_interval(p)
    assert reach.shape == (200, 3, 2)
    np.testing.assert_allclose(said.sum(axis=1), 1)
    assert len(np.unique(said, axis=0)) <= len(fitted.levels_)
    for value in np.unique(said, axis=0):
        here = (said == value).all(axis=1)
        mean = p[here].mean(axis=0)
        assert np.all((reach[here, :, 0] <= mean) & (mean <= reach[here, :, 1]))


def test_a_frame_has_a_frame_of_intervals() -> None:
    X, y = draw_rows(3000, 7)
    frame = pd.DataFrame(X, columns=["said", "g"], index=np.arange(3000) + 10)
    fitted = mw.SoundClassifier(frozen(), groups=["g"], random_state=0).fit(frame, y)
    reach = fitted.predict_interval(frame)
    assert isinstance(reach, pd.DataFrame)
    assert list(reach.columns) == ["low", "high"]
    assert reach.index.equals(frame.index)
    as_array = mw.SoundClassifier(frozen(), groups=[1], random_state=0).fit(X, y).predict_interval(X)
    np.testing.assert_allclose(reach, as_array)
