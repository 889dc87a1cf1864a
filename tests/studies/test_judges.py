"""The judges of the benchmark and of the paper's statements: each says so when the numbers are otherwise."""

from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole import studies
from makewhole.bets import payment
from makewhole.studies import adversaries, drawing, lineup, offline_worlds, statements, statements_claims
from makewhole.studies import decisions_claims as judges

ROUNDS = np.array([1, 16, 256, 4096])


def benchmark(sizes: dict[str, list[float]], **more: Any) -> list[dict[str, Any]]:
    """Three seeds of a benchmark of two tasks, with these |mean losses| along the way for each correction."""
    results = []
    for seed in range(3):
        corrections = {}
        for name, size in sizes.items():
            curves = np.outer([1.0, -1.0], np.array(size) * (1 + seed / 100))
            counts = np.zeros(len(judges.C_BINS) - 1)
            middle = (judges.C_BINS[1:] + judges.C_BINS[:-1]) / 2
            width = more.get("widths", {}).get(name, 0.05)
            counts[np.argmin(np.abs(middle - width))] = 100 + seed
            corrections[name] = {
                "curves": curves,
                "c_counts": counts,
                "negative_c": 0.0,
                "mean_size_of_c": width,
                "by_z": np.full((2, 10), more.get("within", {}).get(name, 0.5)),
            }
        clipped = {name: corrections[name] for name in ("swap", "none", "naive") if name in corrections}
        results.append({"seed": seed, "rounds": ROUNDS, "corrections": corrections, "clipped": clipped})
    return results


def verdicts(judge: Any, results: list[dict[str, Any]]) -> dict[str, str]:
    return {claim.text: claim.verdict for claim in judge(results, "MNIST", "mnist")}


def test_swap_is_judged_against_each_kind_of_rival_by_itself() -> None:
    near, far, nearest = [0.1, 0.1, 0.1, 0.01], [0.1, 0.1, 0.1, 0.02], [0.1, 0.1, 0.1, 0.001]
    seen = verdicts(
        judges.swap_comes_nearest,
        benchmark({"swap": near, "none": far, "naive": far, "standard 1": nearest, "reserve 0.1": nearest}),
    )
    assert list(seen.values()) == ["holds", "fails", "fails"]
    assert "the paper's alternatives" in next(iter(seen))
    assert verdicts(judges.swap_comes_nearest, benchmark({"none": far})) == {}


def test_what_falls_like_chance_vanishes_and_what_stays_does_not() -> None:
    chance, stays = [1.0, 0.25, 0.0625, 0.015625], [1.0, 0.3, 0.3, 0.3]
    seen = verdicts(judges.what_vanishes, benchmark({"swap": chance, "none": stays, "naive": chance}))
    slowly = "falls more slowly than T^−¼, if at all"
    assert seen == {
        "on MNIST swap's own loss goes to 0, at least like T^−¼": "holds",
        f"on MNIST the mean loss of no correction {slowly}": "holds",
        f"on MNIST the mean loss of follow-the-leader {slowly}": "fails",
    }


def test_widths_are_alike_where_they_are() -> None:
    flat = [0.1] * 4
    same = benchmark({"swap": flat, "none": flat, "naive": flat})
    start = "on MNIST there is no noticeable difference between the |c| of swap and of"
    text = f"{start} no correction"
    assert verdicts(judges.widths_are_alike, same) == {text: "holds", f"{start} follow-the-leader": "holds"}
    mirrored = benchmark({"swap": flat, "none": flat}, widths={"swap": 0.05, "none": -0.05})
    assert verdicts(judges.widths_are_alike, mirrored)[text] == "holds"  # the size of c is the same
    wider = benchmark({"swap": flat, "none": flat}, widths={"swap": 0.05, "none": 0.3})
    assert verdicts(judges.widths_are_alike, wider)[text] == "fails"


def test_close_to_zero_is_a_level_and_not_a_rate() -> None:
    text = "on MNIST swap's loss is close to zero after few rounds"
    flat = benchmark({"swap": [0.005] * 4})
    assert verdicts(judges.swap_is_close, flat)[text] == "holds"
    (claim,) = judges.swap_is_close(benchmark({"swap": [0.1, 0.1, 0.005, 0.005]}), "MNIST", "mnist")
    assert "from round 256 on" in claim.numbers
    falling = benchmark({"swap": [10.0, 1.0, 0.1, 0.05]})  # fast, but not there yet
    assert verdicts(judges.swap_is_close, falling)[text] == "fails"


def test_an_alternative_that_wins_does_not_lose() -> None:
    results = benchmark({"none": [0.1] * 4, "naive": [0.1] * 4})
    for r in results:
        r["corrections"]["none"]["curves"] = np.abs(r["corrections"]["none"]["curves"])
        r["corrections"]["naive"]["curves"] = -np.abs(r["corrections"]["naive"]["curves"])
    assert list(verdicts(judges.alternatives_lose, results).values()) == ["holds", "fails"]


def test_negative_c_is_judged_by_the_two_settings() -> None:
    for clipped, verdict in ((0.02, "holds"), (0.005, "fails")):
        results = benchmark({"swap": [0.1, 0.1, 0.1, 0.01]})
        for r, other in zip(results, benchmark({"swap": [0.1, 0.1, 0.1, clipped]}), strict=True):
            r["clipped"] = other["corrections"]
        (claim,) = judges.negative_c_is_more_stable(results, "MNIST", "mnist")
        assert (claim.verdict, claim.key) == (verdict, "negative c")


def test_one_poor_base_that_hurts_is_enough_and_all_must_vanish() -> None:
    good, hurt, stays = [1.0, 0.25, 0.06, 0.015], [1.0, 0.5, 0.12, 0.015], [1.0, 0.2, 0.01, 0.01]
    for poor, expected in (
        ({"shift": hurt, "noise": good}, ["holds", "holds"]),
        ({"shift": stays, "noise": stays}, ["fails", "fails"]),
    ):
        results = benchmark({"swap": good})
        for r, bases in zip(results, benchmark({judges.NETWORK: good, **poor}), strict=True):
            r["bases"] = bases["corrections"]
        assert list(verdicts(judges.poor_bases_hurt_for_a_while, results).values()) == expected


def test_our_setting_is_judged_by_the_same_functions() -> None:
    results = benchmark({"swap": [0.1] * 4, "none": [0.2] * 4})
    (ours,) = judges.swap_comes_nearest(results, "MNIST", "mnist", group="clipped")
    (theirs,) = judges.swap_comes_nearest(results, "MNIST", "mnist")
    assert (ours.key, ours.verdict) == (theirs.key, theirs.verdict) == ("nearest", "holds")
    assert ours.text == f"{theirs.text}, with ĉ in [0, ½]"
    assert (theirs.setting, ours.setting) == (judges.PAPERS_SETTING, judges.OUR_SETTING)
    assert {partial.func for partial in judges.OUR_JUDGES} <= set(judges.JUDGES)  # type: ignore[attr-defined]  # partials


def test_balance_within_groups_is_judged_for_each_correction() -> None:
    flat = [0.1] * 4
    (text, verdict), *_ = verdicts(
        judges.balance_is_over_all_bets, benchmark({"swap": flat, "none": flat})
    ).items()
    assert (text, verdict) == (
        "on MNIST every correction is further from balance within a group than over all bets",
        "holds",
    )
    even = benchmark({"swap": flat, "none": flat}, within={"none": 0.05})
    assert verdicts(judges.balance_is_over_all_bets, even)[text] == "fails"


def test_a_loss_that_is_forecast_may_be_right_by_chance_but_not_often() -> None:
    seen = []
    for right, inside in ((0.02, 0.1), (0.3, 0.4), (0.8, 0.9)):  # shares of all cases
        results = benchmark({"swap": [0.1] * 4})
        for k, result in enumerate(results):
            true = np.full(100, 2.0)
            true[: int(100 * inside) - k] = 0.6  # in the range, and the seeds differ a little
            true[: int(100 * right) - k] = 0.5
            result["honesty"] = {
                "low": np.zeros(100),
                "high": np.ones(100),
                "forecasted": np.full(100, 0.5),
                "true": true,
                "insured": np.ones(100),
            }
        seen.append(tuple(verdicts(judges.bets_make_losses_certain, results).values()))
    assert seen == [("holds", "holds", "holds"), ("holds", "fails", "holds"), ("holds", "fails", "fails")]


def test_a_reserve_has_swap_regret_that_stays_and_smaller_steps_do_not() -> None:
    assert adversaries.swap_regret("reserve 0.1", 20_000) > 0.02
    assert adversaries.swap_regret("standard 1", 20_000) < 0.01


def test_the_reserve_that_is_compared_is_chosen_by_its_width_and_not_by_its_loss() -> None:
    sizes = {"swap": [0.1] * 4, "reserve 0.1": [0.001] * 4, "reserve 0.01": [0.2] * 4}
    widths = {"swap": 0.05, "reserve 0.1": 0.2, "reserve 0.01": 0.06}
    (claim,) = judges.reserve_against_swap(benchmark(sizes, widths=widths), "MNIST", "mnist")
    assert claim.verdict == "fails"
    assert "0.06 (reserve 0.01)" in claim.numbers


# --- the paper's statements -------------------------------------------------------------------------------

WRONG_AS_PRINTED = {
    "the proof of Lemma 1",
    "§3.1, as printed",
    "Proposition 3, as printed",
    "Lemma 2, as printed",
    "the proof of Lemma 4",
    "Lemma 5, as printed",
    "the proof of Lemma 5",
    "Theorem 2, as printed",
    "Proposition 4, as printed",
    "the proof of Proposition 5",
}


@pytest.mark.slow
def test_what_is_wrong_as_printed_is_wrong_and_the_rest_holds() -> None:
    got = studies.run("statements", rounds=1_000, seeds=2, jobs=1)
    verdicts = {claim.where: claim.verdict for claim in got.judged if "calibration" not in claim.where}
    assert {where for where, verdict in verdicts.items() if verdict == "fails"} == WRONG_AS_PRINTED
    seen = {where for where, verdict in verdicts.items() if verdict == "undecided"}  # and not proved
    once = {"Lemma 4, as printed", "the proof of Theorem 2", "Theorem 1, second half, printed K"}
    assert seen == once
    assert all(claim.judge.startswith("makewhole.studies.statements_claims.") for claim in got.judged)
    assert list(got.figures) == ["regret"]
    assert got.figures["regret"].get_suptitle()


@pytest.mark.parametrize(
    ("search", "broken", "key"),
    [
        (statements.with_bets, "hedge", "prop2"),
        (statements.without_bets, "loss_bounds", "prop1_in"),
        (statements.bets_and_beliefs, "must_accept", "lemma1"),
    ],
)
def test_a_search_finds_what_is_broken(
    search: Any, broken: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(result: dict[str, float]) -> float:
        return result[key]

    assert of(search(np.random.default_rng(0), 500)) < 1e-9
    true = getattr(statements, broken)
    wrong = {
        "hedge": lambda losses: 1.01 * true(losses),
        "loss_bounds": lambda losses, mu, c: true(losses, mu, 0.9 * c),
        "must_accept": lambda contract, mu, c: true(contract, mu, 0.9 * c),
    }[broken]
    monkeypatch.setattr(statements, broken, wrong)
    assert of(search(np.random.default_rng(0), 500)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("key", "c_seen"), [("prop4", 0.8), ("prop5", 1.2)])
def test_the_search_for_bets_can_disagree_with_calibration(
    key: str, c_seen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = payment
    assert offline_worlds.offline(np.random.default_rng(0), 100)[key] == 0
    monkeypatch.setattr(offline_worlds, "payment", lambda b, y, mu, c: true(b, y, mu, c_seen * c))
    assert offline_worlds.offline(np.random.default_rng(0), 100)[key] > 0


def test_the_naive_payment_is_the_bet_at_c_of_0() -> None:
    losses = np.array([3.0, -5.0])
    paid = [statements.naive_payment(losses, y, 0.25) for y in (0, 1)]
    assert paid == [payment(-8.0, y, 0.25, 0.0) for y in (0, 1)]


def test_the_mended_bound_is_not_so_wide_that_nothing_could_break_it() -> None:
    # No correction against targets of 1 has a regret of T: it would break the bounds where we play.
    cells = statements_claims.make_swap(20_000, "swap 1/2").cells
    assert statements_claims.blind(cells, 20_000) < 20_000 / 2
    assert statements_claims.blind_in_cells(cells, 20_000) < 20_000 / 2


def test_the_study_of_statements_takes_no_corrections() -> None:
    with pytest.raises(ValueError, match="corrections are the paper's own"):
        studies.run("statements", corrections=["swap"])


# --- what figures share -----------------------------------------------------------------------------------


def test_every_correction_has_one_colour_and_its_variants_differ() -> None:
    style = drawing.styles([*lineup.LINEUP, "mine", "another of mine"])
    shown = [tuple(style[name].values()) for name in drawing.SHOWN]
    assert len({colour for colour, _ in shown}) == len(shown)
    assert all(dash == "-" for _, dash in shown)
    looks = [tuple(map(str, one.values())) for one in style.values()]
    assert len(set(looks)) == len(looks)
    assert drawing.styles(["swap"])["swap"] == style["swap"]


def test_labels_beside_lines_do_not_overlap() -> None:
    figure, axes = drawing.grid(1, 1, 6, 4, "A title")
    ax = axes[0, 0]
    ax.plot([0, 1], [0, 1])
    drawing.label_ends(ax, dict.fromkeys("abcde", (0.5, "black")))
    heights = sorted(text.xy[1] for text in ax.texts)
    assert len(heights) == 5
    assert min(np.diff(heights)) > 0.03
    assert figure.get_suptitle() == "A title"


def test_more_cells_by_another_power() -> None:
    rounds = 1_000_000
    quarter, third = (mw.SwapRegret.for_horizon(rounds, power=p).cells for p in (1 / 4, 1 / 3))
    assert (quarter, third) == (17, 42)  # (10⁶ / log 10⁶)^¼ = 16.4, and ^⅓ = 41.7
    assert lineup.make_correction("swap 1/3", rounds).cells == third  # type: ignore[attr-defined]  # a swap has cells
    with pytest.raises(ValueError, match=r"power must lie in \(0, 1\]; got 2"):
        mw.SwapRegret.for_horizon(100, power=2)
