"""Every correction against every adversary in ever longer games, to see whose mean loss vanishes.

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
from makewhole.jit import call, fingerprint, jit
from makewhole.protocol import Chance
from makewhole.studies.claims import Claim, Verdict
from makewhole.studies.drawing import BESIDE, grid, line
from makewhole.studies.lineup import LINEUP, bound_of, compiled, make_correction
from makewhole.studies.own import NOTHING, Acts, Own, plain_steps, read_agents
from makewhole.studies.study import Options, Picture, Plan, Result, Study, as_columns

AGENTS = ("clairvoyant", "insider", "phase doubling", "draw reading", "pushing")
INSIDE_PROBABILITY = 0.7
LONGEST, LONGEST_OWN = 10_000_000, 100_000  # rounds of the longest game; with the user's own, which is slower
BOUNDS_SHOWN = ("deterministic swap", "standard 0.1", "standard 1", "reserve 0.01")


@dataclass(frozen=True)
class AdversarySettings:
    """Game lengths, and who plays."""

    rounds: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    corrections: tuple[str, ...] = tuple(LINEUP)
    agents: tuple[str, ...] = AGENTS


def target_of(agent: int, c: float, t: int, cell: int, beta: int, credits_left: float, draw: float) -> float:
    """The target that the agent's stake makes: +½ or −½; 0 if it stakes nothing."""
    if agent == 0:  # knows the outcome, and bets wherever that pays
        return 0.5 if c < 0.5 else 0.0
    if agent == 1:  # knows Pr[y = 1] = 0.7, and bets on 1 wherever that pays
        if c >= INSIDE_PROBABILITY - 0.5:
            return 0.0
        return 0.5 if draw < INSIDE_PROBABILITY else -0.5
    if agent == 2:  # up and down in phases of doubling length
        phase = 0
        while t > 0:
            t >>= 1
            phase += 1
        return 0.5 if phase % 2 == 1 else -0.5
    if agent == 3:  # reads off c which cell was drawn
        return -0.5 if cell == beta and credits_left > 0.0 else 0.5
    return -0.5 if c > 0.0 else 0.5  # pushes away from λ


def make_game(propose: Callable[..., Any], observe: Callable[..., Any], sources: int) -> Callable[..., float]:
    """Make a game of one correction; `sources` is in the closure for numba's cache to see."""

    def game(values: Any, marks: Any, agent: int, rounds: int, beta: int, seed: int) -> float:
        total, credits_left = 0.0, rounds / 8.0
        if sources < 0:  # never true; reading `sources` puts it into the closure
            return 0.0
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
    return jit(make_game(propose, observe, fingerprint(steps)), target_of, *steps.HELPERS, propose, observe)


def mean_loss(agent: str, correction: str, rounds: int, seed: int, own: Own = NOTHING) -> float:
    """The forecaster's mean loss in one game, in units of the cap.

    Raises a ValueError if nobody has an agent or a correction of that name.
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
    play = make_game(*plain_steps(correction, cells=beta >= 0), sources=0)
    return float(play(None, None, agent, rounds, beta, seed))


def _play_own(agent: str, correction: Correction, rounds: int, seed: int, own: Own) -> float:
    """A game of the user's agent: it may ask nature, a fair coin, for the outcome."""
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
    """One correction against all agents: mean losses by agent and length, and what a theorem promises."""
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


def claims(results: list[Result]) -> list[Claim]:
    """The paper's Theorem 1, our theorems, and the counterexample, held against the longest games."""
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(result["correction"], []).append(result)
    agents, longest = list(results[0]["losses"]), results[0]["rounds"][-1]
    made = []
    if "swap" in by_name:
        worst = {a: max(abs(float(r["losses"][a][-1])) for r in by_name["swap"]) for a in agents}
        text = "Algorithm 3's mean loss vanishes against any agent"
        verdict = _if_long(longest, "fails" if max(worst.values()) > 0.1 else "holds")
        numbers = f"|mean loss| after {longest:,}: " + ", ".join(f"{a} {v:.4f}" for a, v in worst.items())
        made.append(Claim(text, "Theorem 1", verdict, numbers, "adversaries"))
    promises = {
        "our Theorem C": "deterministic swap keeps to its bound against everyone",
        "our Theorem A": "reserve's total loss stays within 1/η caps, for ever, against everyone",
    }
    for theorem, text in promises.items():
        bound_by_it = [r for r in results if r["theorem"] == theorem]
        if bound_by_it:
            made.append(_kept(bound_by_it, theorem, text))
    if "naive" in by_name and "phase doubling" in agents:
        size = max(abs(loss) for r in by_name["naive"] for loss in r["losses"]["phase doubling"][-3:])
        text = "alternatives fail to be exact: follow-the-leader against phases of doubling length"
        verdict = _if_long(longest, "holds" if size > 0.01 else "fails")
        numbers = f"|mean loss| up to {size:.3f} in the longest games"
        made.append(Claim(text, "§7, obs. 3", verdict, numbers, "adversaries"))
    return made


def _if_long(longest: int, verdict: Verdict) -> Verdict:
    """The verdict if the longest game is long enough for one, else "undecided"."""
    return verdict if longest >= 100_000 else "undecided"


def _kept(results: list[Result], where: str, text: str) -> Claim:
    """Whether a bound was kept in every game, and how much of it was used."""
    share = max(
        abs(loss) / (bound or math.inf)
        for r in results
        for losses in r["losses"].values()
        for bound, loss in zip(r["bounds"], losses, strict=True)
    )
    verdict: Verdict = "holds" if share <= 1 else "fails"
    return Claim(text, where, verdict, f"at most {share:.2f} of the bound was used", "adversaries")


# --- the figure -------------------------------------------------------------------------------------------


def draw(results: list[Result]) -> Any:
    """|mean loss| against the length of the game, log-log, a panel per agent; thin lines are theorems."""
    agents = list(results[0]["losses"])
    figure, axes = grid(1, len(agents), 4 + 2 * len(agents), 4.0, sharey=True)
    names = list(dict.fromkeys(r["correction"] for r in results))
    for ax, agent in zip(axes[0], agents, strict=True):
        for k, name in enumerate(names):
            chosen = [r for r in results if r["correction"] == name]
            rounds = np.array(chosen[0]["rounds"])
            sizes = np.mean([np.abs(r["losses"][agent]) for r in chosen], axis=0)
            ax.plot(rounds, np.maximum(sizes, 1e-8), label=name, marker="o", markersize=3, **line(k))
            if name in BOUNDS_SHOWN:
                ax.plot(rounds, chosen[0]["bounds"], color=line(k)["color"], linewidth=0.7, alpha=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(agent, fontsize=10)
        ax.set_xlabel("rounds T")
    axes[0, 0].set_ylabel("|mean loss| / cap")
    axes[0, -1].legend(**BESIDE, title="thin: the bound")
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


def _plan(options: Options) -> Plan:
    chosen, playing = options.chosen(), read_agents(options.agents, AGENTS)
    names, makers = (tuple(LINEUP), {}) if chosen is None else chosen
    agents, agent_makers = (AGENTS, {}) if playing is None else playing
    longest = options.rounds or (LONGEST_OWN if makers or agent_makers else LONGEST)
    lengths = tuple(t for t in (10**k for k in range(3, 10)) if t < longest)
    settings = AdversarySettings((*lengths, longest), names, agents)
    every_one = Own(makers, agent_makers)
    for name in names:  # what does not fit is named here, not in a worker
        compiled(make_correction(name, longest, (0.0, 0.0), 0, makers))
    for agent in agent_makers:
        mean_loss(agent, names[0], 1, 0, every_one)
    cases = []
    for seed in range(options.seeds or STUDY.seeds):
        for name in names:
            mine = Own({name: makers[name]} if name in makers else {}, agent_makers)
            own = {"own": mine} if mine.corrections or mine.agents else {}
            cases.append({"settings": settings, "correction": name, "seed": seed, **own})
    pictures = {"adversaries": Picture("Mean loss against adversaries, for ever longer games", draw)}
    return Plan(run, cases, settings, claims, pictures, _table, _table)


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
Stakes are 1, μ = ½, and the agents see everything. Swap's mean loss falls against all agents but one;
against phases of doubling length it falls slowly. The agent who reads swap's draw off the published c wins
0.17 of the cap per forecast at every length. This is a counterexample to Theorem 1 as it is printed.
Deterministic swap has no draw, and keeps to its bound (thin line) against everyone. So does reserve, whose
*total* loss is bounded. Phases of doubling length beat follow-the-leader. The authors' narrower range
(±0.1, 40 cells) voids the guarantee, and the figure shows it. The phases' panel goes up and down with where
in a phase a game ends. Where a line is missing it lies under another.""",
    shown="You have just seen agents who know more than the forecast bet against every correction, in ever "
    "longer games, and whose mean loss vanishes.",
    next_step="Next, send an agent of your own: the page docs/studies.md shows how, with "
    'makewhole.studies.run("adversaries", agents=...).',
    seeds=3,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": _COLUMNS},
    takes=("agents",),
)
