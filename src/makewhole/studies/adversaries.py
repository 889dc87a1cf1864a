"""Play every correction against every adversary in ever longer games, to see whose mean loss vanishes.

μ = ½, ĉ = 0, unit stakes and M = 1 throughout, so every target is ±½. The games are those of
`makewhole.agents` against an `InsuredForecaster`. They run compiled for our agents and our corrections, and
as plain Python for the user's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole.corrections import Correction, for_book
from makewhole.corrections import _kernels as steps
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.jit import call, jit
from makewhole.protocol import Chance
from makewhole.studies.claims import Claim, Verdict
from makewhole.studies.drawing import few, grid, label_ends, styles
from makewhole.studies.lineup import LINEUP, bound_of, compiled, make_correction
from makewhole.studies.own import NOTHING, Acts, Own, plain_steps, read_agents
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns

AGENTS = ("clairvoyant", "insider", "phase doubling", "draw reading", "pushing")
INSIDE_PROBABILITY = 0.7
LONGEST, LONGEST_OWN = 10_000_000, 100_000  # rounds of the longest game; the user's own agents are slower
BOUNDS_SHOWN = ("deterministic swap", "reserve 0.01")
SHOWN = ("swap", "swap 1/3", "naive", "standard 1", "deterministic swap", "reserve 0.01")


@dataclass(frozen=True)
class AdversarySettings:
    """Game lengths, and who plays."""

    rounds: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    corrections: tuple[str, ...] = tuple(LINEUP)
    agents: tuple[str, ...] = AGENTS


def target_of(agent: int, c: float, t: int, cell: int, beta: int, credits_left: float, draw: float) -> float:
    """Return the target that the agent's stake makes: +½ or −½; 0 if it stakes nothing."""
    if agent == 0:  # knows the outcome, and bets if that pays
        return 0.5 if c < 0.5 else 0.0
    if agent == 1:  # knows Pr[y = 1] = 0.7, and bets on 1 if that pays
        if c >= INSIDE_PROBABILITY - 0.5:
            return 0.0
        return 0.5 if draw < INSIDE_PROBABILITY else -0.5
    if agent == 2:  # up and down in phases of doubling length
        phase = 0
        while t > 0:
            t >>= 1
            phase += 1
        return 0.5 if phase % 2 == 1 else -0.5
    if agent == 3:  # reads from c which cell was drawn
        return -0.5 if cell == beta and credits_left > 0.0 else 0.5
    return -0.5 if c > 0.0 else 0.5  # pushes away from λ


def make_game(propose: Callable[..., Any], observe: Callable[..., Any]) -> Callable[..., float]:
    """Make a game of one correction."""

    def game(values: Any, marks: Any, agent: int, rounds: int, beta: int, seed: int) -> float:
        total, credits_left = 0.0, rounds / 8.0
        for t in range(1, rounds + 1):
            proposal = propose(values, marks)
            draw = steps.scramble(seed + t * 0x9E3779B9) / 4294967296.0
            target = target_of(agent, proposal[0], t, proposal[1], beta, credits_left, draw)
            if proposal[1] == beta:
                credits_left -= 1.0
            if target != 0.0:
                loss = target - proposal[0]
                total += loss
                observe(values, marks, proposal, target, 1.0, loss, 0.0)
        return total

    return game


@functools.cache
def _compiled_game(propose: Callable[..., Any], observe: Callable[..., Any]) -> Callable[..., float]:
    return jit(make_game(propose, observe), target_of, *steps.HELPERS, propose, observe)


def mean_loss(agent: str, correction: str, rounds: int, seed: int, own: Own = NOTHING) -> float:
    """Return the forecaster's mean loss in one game, in units of the cap.

    Raises a ValueError if the agent or the correction is unknown.
    """
    chosen = make_correction(correction, rounds, (0.0, 0.0), seed, own.corrections)
    if agent in own.agents:
        return _play_own(agent, chosen, rounds, seed, own)
    if agent not in AGENTS:
        raise ValueError(f"agent must be one of {', '.join(AGENTS)}; got {agent!r}")
    beta, which = for_book(chosen).cell_of(0.5), AGENTS.index(agent)
    ours = compiled(chosen)
    if ours is None or ours.kernels is None:
        return plain_game(chosen, which, rounds, beta, seed) / rounds
    play = _compiled_game(*ours.kernels)
    return float(call(play, *ours.arrays(), which, rounds, beta, seed)) / rounds


def plain_game(correction: Correction, agent: int, rounds: int, beta: int, seed: int) -> float:
    """The total loss in a game of any correction: the compiled loop's source, as plain Python."""
    play = make_game(*plain_steps(correction, cells=beta >= 0))
    return float(play(None, None, agent, rounds, beta, seed))


def _play_own(agent: str, correction: Correction, rounds: int, seed: int, own: Own) -> float:
    """Play a game of the user's agent: it may ask nature, a fair coin, for the outcome."""
    nature = Chance(0.5, seed=seed)
    player = own.agents[agent](nature, rounds, seed)
    if not isinstance(player, Acts):
        raise TypeError(f"agents[{agent!r}] must return an agent with the method act; got {player!r}")
    forecaster = InsuredForecaster(lambda x: 0.5, correction, max_stake=1.0, c_range=(0.0, 0.0))
    total = 0.0
    for _ in range(rounds):
        forecast = forecaster.forecast(nature.reveal())
        decision = player.act(forecast)
        total += sum(forecaster.settle(forecast, nature.outcome(), stake=decision.stake))
    return total / rounds


def run(settings: AdversarySettings, correction: str, seed: int, own: Own = NOTHING) -> Result:
    """Play one correction against all agents: mean losses by agent and length, and a theorem's bounds."""
    losses = {
        agent: [mean_loss(agent, correction, t, seed, own) for t in settings.rounds]
        for agent in settings.agents
    }
    made = {t: make_correction(correction, t, (0.0, 0.0), seed, own.corrections) for t in settings.rounds}
    bounds = [bound_of(one, t) for t, one in made.items()]
    return {
        "correction": correction,
        "seed": seed,
        "rounds": list(settings.rounds),
        "losses": losses,
        "theorem": bounds[0].theorem if bounds[0] else None,
        "bounds": [bound.mean_loss if bound else None for bound in bounds],
    }


# --- claims -----------------------------------------------------------------------------------------------

_TRIFLE = 1e-3  # a mean loss, in caps, that is negligible
_COINCIDE, _APART = 1.2, 1.5  # factors: lines of the figure that are drawn apart, and how far


def _losses(results: list[Result], name: str) -> dict[str, list[float]]:
    """Per agent, the largest |mean loss| over seeds at every length; empty if the correction did not play."""
    runs = [r for r in results if r["correction"] == name]
    agents = list(runs[0]["losses"]) if runs else []
    return {a: np.abs([r["losses"][a] for r in runs]).max(axis=0).tolist() for a in agents}


def _staying(losses: dict[str, list[float]]) -> dict[str, str]:
    """Return the agents against whom a mean loss does not fall, with the numbers.

    It falls if in the two longest games it is at most half of what it was in the two before, or negligible.
    Two games and not one, because a loss depends on where in a phase the game ends.
    """
    staying = {}
    for agent, sizes in losses.items():
        late, before = max(sizes[-2:]), max(sizes[-4:-2])
        if late > max(_TRIFLE, before / 2):
            staying[agent] = f"{agent}: {before:.3f}, then {late:.3f}"
    return staying


def _judge_fall(results: list[Result], name: str) -> tuple[Verdict, str] | None:
    """Whether a correction's mean loss falls against all agents; None if it did not play."""
    losses = _losses(results, name)
    if not losses:
        return None
    if len(results[0]["rounds"]) < 4:
        return "undecided", "it takes games of four lengths to see what falls"
    staying = _staying(losses)
    numbers = "the larger |mean loss|/cap of the two games before the two longest, then of these: "
    numbers += "; ".join(staying.values()) if staying else "it at least halves against every agent"
    return ("fails" if staying else "holds"), f"{name}, {numbers}"


def _opposite(verdict: Verdict) -> Verdict:
    turned: dict[Verdict, Verdict] = {"holds": "fails", "fails": "holds"}
    return turned.get(verdict, verdict)


def algorithm_3_vanishes(results: list[Result]) -> list[Claim]:
    """The paper's Theorem 1 as printed: whether Algorithm 3's mean loss vanishes against all agents."""
    judged = _judge_fall(results, "swap")
    text = "Algorithm 3's mean loss vanishes against any agent"
    return [Claim(text, "Theorem 1, second half", *judged, "adversaries")] if judged else []


def some_algorithm_vanishes(results: list[Result]) -> list[Claim]:
    """The other half of Theorem 1: an exact algorithm exists. Ours prove it with c < 0; else none does."""
    promises = {
        "our Theorem C": "deterministic swap keeps to its bound, which vanishes, against everyone",
        "our Theorem A": "reserve's total loss stays within 1/η caps, for ever, against everyone",
    }
    made: list[Claim] = []
    for theorem, text in promises.items():
        bound_by_it = [r for r in results if r["theorem"] == theorem]
        if bound_by_it:
            share = max(
                abs(loss) / (bound or math.inf)
                for r in bound_by_it
                for losses in r["losses"].values()
                for bound, loss in zip(r["bounds"], losses, strict=True)
            )
            kept: Verdict = "holds" if share <= 1 else "fails"
            numbers = f"at most {share:.2f} of the bound was used"
            made.append(Claim(text, theorem, kept, numbers, "adversaries"))
    if made:
        won = min(_bets_on_the_wrong_side(kind) for kind in ("deterministic swap", "reserve 0.01"))
        text = "an algorithm exists whose mean loss goes to 0 against any agent, with c in (0, 1)"
        # theory.md, "Lower bounds", proves that every algorithm wins from her: c ≥ 0 pays nothing back.
        none_does: Verdict = "fails" if won > _TRIFLE else "undecided"
        numbers = (
            f"who always bets on what does not happen loses at least {won:.2f} caps a forecast for ever; "
        )
        numbers += "proved in theory.md, “Lower bounds”"
        made.insert(0, Claim(text, "Theorem 1, first half, as printed", none_does, numbers))
        text = "an algorithm exists whose mean loss goes to 0 against any agent, if c may be negative"
        verdict: Verdict = "holds" if any(claim.verdict == "holds" for claim in made[1:]) else "undecided"
        made.insert(
            1, Claim(text, "Theorem 1, first half", verdict, "proved; see the next rows", "adversaries")
        )
    return made


def _bets_on_the_wrong_side(kind: str, rounds: int = 500) -> float:
    """Return what a forecaster with c >= 0 wins per forecast from a bettor who is always wrong."""
    correction = make_correction(kind, rounds, (0.0, 0.0), 0)
    f = InsuredForecaster(None, correction, max_stake=1.0, c_range=(0.0, 0.0), mode="sound", thaw=None)
    for t in range(rounds):
        f.settle(f.forecast(mu=0.5), t % 2, stake=-1.0 if t % 2 else 1.0)
    return -f.statement().mean_loss


def swap_regret(name: str, rounds: int) -> float:
    """Return a correction's regret per round against ψ(λ) = −λ, which is 1-Lipschitz, for targets ±½."""
    correction, total = make_correction(name, rounds, (0.0, 0.0)), 0.0
    for _ in range(rounds):
        proposal = correction.propose()
        target = -0.5 if proposal.lam > 0 else 0.5
        total += (target - proposal.lam) ** 2 - (target + proposal.lam) ** 2
        correction.observe(proposal, target, 1.0)
    return total / rounds


def others_fall_to_adversaries(results: list[Result]) -> list[Claim]:
    """Whether an agent keeps beating the alternatives, and whether only small swap regret prevents that."""
    made = []
    naive, descent = _judge_fall(results, "naive"), _judge_fall(results, "standard 1")
    reserve = _judge_fall(results, "reserve 0.1")
    if naive:
        text = (
            "follow-the-leader, the paper's minimiser of standard regret, does not guarantee a vanishing loss"
        )
        made.append(Claim(text, "Appendix C", _opposite(naive[0]), naive[1], "adversaries"))
    if descent:
        text = "gradient descent with steps that get smaller has a loss that vanishes against any agent"
        made.append(
            Claim(text, "not in the paper", descent[0], f"{descent[1]}; proved in theory.md", "adversaries")
        )
    if reserve:
        short, long = (swap_regret("reserve 0.1", t) for t in (1_000, 100_000))
        text = "an algorithm has to minimise swap regret for its loss to vanish against any agent"
        numbers = f"{reserve[1]}, as Theorem A has it; but its regret against ψ(λ) = −λ, where targets push "
        numbers += f"away from λ, is {short:.3f} per round after 1,000 rounds, {long:.3f} after 100,000 "
        numbers += f"(gradient descent: {swap_regret('standard 1', 1_000):.3f}, "
        numbers += f"{swap_regret('standard 1', 100_000):.4f})"
        stays: Verdict = _opposite(reserve[0]) if long > max(_TRIFLE, short / 2) else "undecided"
        made.append(Claim(text, "§4.1", stays, numbers))
    narrow = _judge_fall(results, "swap ±0.1")
    if narrow:
        text = "with the authors' range, ±0.1 and 40 cells, Algorithm 3's loss vanishes against any agent"
        made.append(Claim(text, "the authors' code", *narrow))
    return made


def more_cells(results: list[Result]) -> list[Claim]:
    """Whether swap loses less with more cells than the printed (T/log T)^¼."""
    agent, printed = "phase doubling", _losses(results, "swap")
    lengths, made = results[0]["rounds"], []
    for name, power in (("swap 1/3", "⅓"), ("swap 1/2", "½")):
        more = _losses(results, name)
        if agent not in printed or agent not in more:
            continue
        pairs = [(t, a, b) for t, a, b in zip(lengths, printed[agent], more[agent], strict=True)][-3:]
        better = [b < a for _, a, b in pairs]
        verdict: Verdict = "holds" if all(better) else "undecided" if any(better) else "fails"
        numbers = "|mean loss|/cap, fewer cells and more: " + ", ".join(
            f"{a:.4f} and {b:.4f} after {t:,}" for t, a, b in pairs
        )
        text = f"against {agent} Algorithm 3 loses less with (T/log T)^{power} cells than with the printed ¼"
        made.append(Claim(text, "ours", verdict, numbers, "adversaries" if name == "swap 1/3" else ""))
    return made


JUDGES = (
    algorithm_3_vanishes,
    some_algorithm_vanishes,
    others_fall_to_adversaries,
    more_cells,
)


# --- the figure -------------------------------------------------------------------------------------------


def side_by_side(lines: dict[str, Any]) -> dict[str, Any]:
    """Return the lines, moved apart on a log scale where they coincide: within a fifth at every length."""
    groups: list[list[str]] = []
    for name, sizes in lines.items():
        near = [g for g in groups if np.abs(np.log(sizes / lines[g[0]])).max() < math.log(_COINCIDE)]
        if near:
            near[0].append(name)
        else:
            groups.append([name])
    return {
        name: lines[name] * _APART ** (k - (len(group) - 1) / 2)
        for group in groups
        for k, name in enumerate(group)
    }


def draw(results: list[Result]) -> Any:
    """Draw |mean loss| against the length of the game, log-log, a panel per agent; thin lines are bounds."""
    agents = list(results[0]["losses"])
    names = few(list(dict.fromkeys(r["correction"] for r in results)), SHOWN)
    columns = min(3, len(agents))
    rows = -(-len(agents) // columns)
    title = "Who beats whom: the mean loss in ever longer games; what does not fall is lost for ever"
    figure, axes = grid(rows, columns, 2.2 + 3.1 * columns, 1.0 + 3.0 * rows, title, sharex=True, sharey=True)
    style = styles(names)
    for k, (ax, agent) in enumerate(zip(axes.flat, agents, strict=False)):
        ends = {}
        runs = {name: [r for r in results if r["correction"] == name] for name in names}
        lines = side_by_side(
            {
                name: np.maximum(np.mean([np.abs(r["losses"][agent]) for r in chosen], axis=0), 1e-8)
                for name, chosen in runs.items()
            }
        )
        for name, chosen in runs.items():
            rounds = np.array(chosen[0]["rounds"])
            ax.plot(rounds, lines[name], marker="o", markersize=3, **style[name])
            ends[name] = (lines[name][-1], style[name]["color"])
            if name in BOUNDS_SHOWN and chosen[0]["bounds"][0]:
                ax.plot(rounds, chosen[0]["bounds"], color=style[name]["color"], linewidth=0.8, alpha=0.7)
                if k == 0:
                    at_length = (2 if name.startswith("reserve") else 1) % len(rounds)  # where there is room
                    at = (rounds[at_length], chosen[0]["bounds"][at_length])
                    note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7.5}
                    ax.annotate(f"bound of {name}", at, (5, 3), color=style[name]["color"], **note)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(agent, fontsize=10)
        if k % columns == columns - 1:
            label_ends(ax, ends)
        if k + columns >= len(agents):
            ax.set_xlabel("rounds T")
            ax.tick_params(labelbottom=True)
    for ax in axes.flat[len(agents) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("|mean loss| / cap\n(lines that coincide: side by side)")
    return figure


# --- the study --------------------------------------------------------------------------------------------


def _table(results: list[Result]) -> dict[str, Any]:
    rows = [
        (r["seed"], r["correction"], agent, t, loss)
        for r in results
        for agent, losses in r["losses"].items()
        for t, loss in zip(r["rounds"], losses, strict=True)
    ]
    return as_columns(tuple(_COLUMNS), rows)


def _plan(options: Options) -> StudyPlan:
    chosen, playing = options.chosen(), read_agents(options.agents, AGENTS)
    names, makers = (tuple(LINEUP), {}) if chosen is None else chosen
    agents, agent_makers = (AGENTS, {}) if playing is None else playing
    longest = options.rounds or (LONGEST_OWN if makers or agent_makers else LONGEST)
    lengths = tuple(t for t in (10**k for k in range(3, 10)) if t < longest)
    settings = AdversarySettings((*lengths, longest), names, agents)
    every_one = Own(makers, agent_makers)
    for name in names:  # raise errors here, not in a worker
        compiled(make_correction(name, longest, (0.0, 0.0), 0, makers))
    for agent in agent_makers:
        mean_loss(agent, names[0], 1, 0, every_one)
    cases = []
    for seed in range(options.seeds or STUDY.seeds):
        for name in names:
            mine = Own({name: makers[name]} if name in makers else {}, agent_makers)
            own = {"own": mine} if mine.corrections or mine.agents else {}
            cases.append({"settings": settings, "correction": name, "seed": seed, **own})
    pictures = {"adversaries": StudyPicture("Mean loss against adversaries, for ever longer games", draw)}
    setting = (
        "the paper's Protocol 2 with μ = ½, ĉ = 0 and stakes of one cap, against agents who see everything"
    )
    return StudyPlan(run, cases, settings, JUDGES, pictures, _table, _table, setting)


_COLUMNS = {
    "seed": "the seed",
    "correction": "the correction",
    "agent": "the agent who bets against it",
    "rounds": "the length T of the game; every length is a game of its own",
    "mean_loss": "the forecaster's loss per round, in units of the cap",
}
STUDY = Study(
    name="adversaries",
    title="Adversaries",
    why="""\
Stakes are 1, μ = ½, and the agents see everything; the seeds draw the random numbers of swap and of the
insider. A loss is said to fall if in the two longest games it is at most half of what it was in the two
before, or under 0.001 of the cap. Theorem 1 has two halves. That *some* algorithm neither loses nor wins in
the long run against anybody is true if c may be negative, and false with c in (0, 1), as Protocol 2 has it.
Deterministic swap keeps to its bound (thin line) against everyone, and so does reserve, whose *total* loss is
bounded. That Algorithm 3 (swap) is one is not true as printed: the agent who reads swap's draw off the
published c, and knows the outcome and how long the game is, wins 0.17 of the cap per forecast at every
length. Against what the paper says, it does not take small swap regret: a reserve with a constant rate has a
regret that stays, against a ψ as the paper allows, and is beaten by nobody. Gradient descent with steps that
get smaller is not beaten either (it does have small swap regret). Phases of doubling length beat
follow-the-leader; against them swap's loss falls slowly, and faster with more cells than the paper prints.
Where lines of the figure coincide, they are drawn side by side.""",
    shown="You have just seen agents who know more than the forecast bet against every correction, in ever "
    "longer games, and whose mean loss vanishes.",
    next_step="Next, send an agent of your own: the page docs/studies.md shows how, with "
    'makewhole.studies.run("adversaries", agents=...).',
    seeds=10,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": _COLUMNS},
    takes=("agents",),
)
