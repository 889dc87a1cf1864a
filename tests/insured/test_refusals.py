"""A refused stake: the limit that its refusal states is taken."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw

CAP = 3.0
LIMITS: dict[str, Any] = {
    "cap": {},
    "capital": {"capital": 2.0, "lines": None},
    "lines": {"mode": "sound", "lines": mw.Lines(each=0.7), "correction": mw.NoCorrection()},
    "capital and lines": {"capital": 5.0, "lines": mw.Lines(each=0.7, of={"bob": 3.0})},
    "exposure": {"max_exposure": 2.5},
    "certificate": {"mode": "sound", "max_exposure": 2.5, "correction": mw.Reserve(0.5)},
    "one-sided": {"one_sided": True, "capital": 2.0},
}
# Which of three open forecasts, how much, in which direction, by whom; and which is settled before it.
STAKES = st.tuples(
    st.integers(0, 2),
    st.floats(0.0, CAP),
    st.booleans(),
    st.sampled_from([None, "ann", ("bob", "cy")]),
    st.sampled_from([None, None, None, (0, 0), (1, 1), (2, 1)]),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
@given(mus=st.tuples(*[st.floats(0.0, 1.0)] * 3), stakes=st.lists(STAKES, min_size=2, max_size=12))
def test_a_stake_of_the_limit_that_a_refusal_states_is_taken(
    name: str, mus: tuple[float, ...], stakes: list[Any]
) -> None:
    f = mw.InsuredForecaster(max_stake=CAP, **LIMITS[name])
    open_ = [f.forecast(mu=mu) for mu in mus]
    for which, size, short, by, settled in stakes:
        if settled is not None:
            f.settle(open_[settled[0]], settled[1])
            open_[settled[0]] = f.forecast(mu=mus[settled[0]])
        b = -size if short and not f.one_sided else size
        try:
            f.stake(open_[which], b, by=by)
        except mw.StakeRefused as refused:
            assert 0.0 <= refused.limit < size  # noqa: PT017 - many fit
            f.stake(open_[which], math.copysign(refused.limit, b), by=by)


def test_the_limit_is_what_the_narrowest_cap_leaves() -> None:
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1.0, max_exposure=0.6)
    q, other = f.forecast(mu=0.5), f.forecast(mu=0.5)
    f.stake(other, 1.0)
    with pytest.raises(mw.StakeRefused, match="over the cap") as refused:
        f.stake(q, 2.0)
    assert refused.value.limit == pytest.approx(0.2)  # the cap leaves 1, but max_exposure 0.1
    with pytest.raises(mw.StakeRefused) as refused:
        f.settle(q, 1, stake=2.0)
    assert refused.value.limit == pytest.approx(0.2)
