"""Lines in exact mode: whoever pays more because of her line changes nothing for the others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw

MAKERS: dict[str, Any] = {
    "standard": lambda: mw.StandardRegret(0.5),
    "reserve": lambda: mw.Reserve(0.1),
    "swap": lambda: mw.SwapRegret(8, low=-1.5, seed=1),
    "deterministic": lambda: mw.DeterministicSwap(8, low=-1.5),
    "none": mw.NoCorrection,
    "groups": lambda: mw.Grouped(mw.Reserve(0.1)),
    "balance": lambda: mw.Balance(0.1),
}
LINES = st.builds(
    mw.Lines,
    each=st.sampled_from([0.01, 1.0, 5.0]),
    of=st.sampled_from([{}, {"bob": 0.25}]),
    share=st.just(1.0),
    thaw=st.sampled_from([0.0, 0.2]),
    scale=st.sampled_from([None, 3.0]),
    keep_gains=st.booleans(),
)
NAMES = st.sampled_from(["ann", "bob", ("club", "ann"), None])
STAKE = st.tuples(NAMES, st.floats(-0.3, 0.3))
ROUND = st.tuples(st.floats(0, 1), st.integers(0, 1), st.lists(STAKE, max_size=3), st.booleans())


@pytest.mark.slow
@pytest.mark.parametrize("one_sided", [False, True], ids=["two-sided", "one-sided"])
@pytest.mark.parametrize("name", MAKERS)
@given(lines=LINES, rounds=st.lists(ROUND, min_size=1, max_size=25))
def test_what_is_published_is_the_same_without_lines(
    name: str, one_sided: bool, lines: mw.Lines, rounds: list[Any]
) -> None:
    """The correction learns the loss at the published price: else λ runs away from those who pay more."""
    settings: dict[str, Any] = dict(max_stake=1.0, mode="exact", one_sided=one_sided, stop=False)
    f = mw.InsuredForecaster(None, MAKERS[name](), lines=lines, **settings)
    g = mw.InsuredForecaster(None, MAKERS[name](), lines=None, **settings)
    groups = "a" if name in ("groups", "balance") else None
    taken: dict[str, float] = {}
    for mu, y, stakes, several in rounds * 3:
        q, plain = f.forecast(mu=mu, groups=groups), g.forecast(mu=mu, groups=groups)
        assert (q.mu, q.c) == (pytest.approx(plain.mu, abs=1e-9), pytest.approx(plain.c, abs=1e-9))
        for by, b in stakes if several else stakes[:1]:
            stake = abs(b) if one_sided else b
            own = f.quote(q, by=by)
            assert own.c >= q.c
            assert own.mu >= q.mu if one_sided else own.mu == q.mu
            f.stake(q, stake, by=by)  # at her own price no stake is refused
            g.stake(plain, stake, by=by)
        loss, other = sum(f.settle(q, y)), sum(g.settle(plain, y))
        assert loss <= other + 1e-9
        for who in ("ann", "bob"):  # the club has no line
            account = f.account(who)
            taken[who] = account.taken
            assert account.taken <= account.line + 1e-9
    bound = f.statement().certificate.bound
    assert bound is None or f.statement().total_loss <= bound + 1e-9


@given(
    lines=LINES,
    steps=st.lists(
        st.tuples(st.sampled_from(["open", "stake", "settle"]), st.floats(0, 1), st.integers(0, 9), NAMES),
        max_size=60,
    ),
)
def test_nobody_takes_more_than_her_line_however_late(lines: mw.Lines, steps: list[Any]) -> None:
    """Many forecasts open, and whoever bets knows what will happen."""
    f = mw.InsuredForecaster(None, mw.StandardRegret(0.5), max_stake=1.0, lines=lines)
    open_: list[Any] = []
    for what, mu, place, by in steps:
        if what == "open" or not open_:
            open_.append(f.forecast(mu=mu))
        elif what == "settle":
            f.settle(open_.pop(place % len(open_)), 1)
        else:
            try:
                f.stake(open_[place % len(open_)], 0.3, by=by)
            except mw.StakeRefused as refused:
                assert refused.limit < 0.3  # noqa: PT017 - it is one of two ways
        for who in ("ann", "bob"):
            account = f.account(who)
            assert account.taken + account.at_risk <= account.line + 1e-9


def test_a_clairvoyant_takes_her_line_and_the_common_price_still_rises() -> None:
    """What she bets at a price of her own, which costs her nothing any more, is still learned."""
    f = mw.InsuredForecaster(max_stake=1, lines=mw.Lines(each=25, share=1.0, thaw=0.0), stop=False)
    for t in range(3_000):
        y = t % 2
        f.settle(f.forecast(mu=0.5), y, stake=1.0 if y else -1.0, by="clairvoyant")
        f.settle(f.forecast(mu=0.5), y, stake=1.0 if t // 2 % 2 else -1.0, by=f"customer {t % 50}")
    assert 20 < f.account("clairvoyant").taken <= 25
    q = f.forecast(mu=0.5)
    assert f.quote(q, by="clairvoyant").c == pytest.approx(0.5, abs=0.01)
    assert q.c > 0.2


def test_it_is_saved_and_goes_on_to_the_bit() -> None:
    lines = mw.Lines(each=2, share=1.0)
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, lines=lines, mode="exact", stop=False)
    for t in range(50):
        f.settle(f.forecast(mu=0.5), 1, stake=1.0, by="ann" if t % 2 else "bob")
    again = mw.InsuredForecaster.from_state(f.to_state())
    for one in (f, again):
        one.settle(one.forecast(mu=0.3), 1, stake=1.0, by="ann")
    assert again.to_state() == f.to_state()
