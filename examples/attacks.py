"""One insured decision, then two attackers against three corrections, in a few seconds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import makewhole as mw
from makewhole.protocol import Chance, Record

ROUNDS = 20_000
SHOWN_AT = (100, 1_000, 5_000, 20_000)


def one_decision() -> None:
    """Gain 10 if the product is effective, lose 2 if not; the forecast says 50 %, and may be wrong."""
    forecast = mw.Forecast(mu=0.5, c=0.0)
    plan = mw.insure(forecast, {"use": (2, -10), "skip": (0, 0)})
    print("A product gains you 10 if it is effective and loses you 2 if not. The forecast: 50 %.")
    print(f"Insured: {plan.action} it and stake {plan.stake:g}. Whatever happens, you gain {-plan.loss:g}:")
    for outcome, (what, loss) in enumerate([("not effective", 2), ("effective", -10)]):
        paid = mw.payment(plan.stake, outcome, forecast.mu, forecast.c)
        print(f"  {what:<14} {-loss:+d} from the product {paid:+g} from the bet = {-loss + paid:+g}")


def clairvoyant(correction: mw.Correction) -> Record:
    """Someone who knows the outcome bets on it."""
    nature = Chance(0.5, seed=1)
    forecaster = mw.InsuredForecaster(lambda x: 0.5, correction, max_stake=1, c_range=(0.0, 0.0))
    return mw.play(nature, forecaster, mw.agents.Clairvoyant(nature.outcome), ROUNDS)


def draw_reader(correction: mw.Correction) -> Record:
    """Someone who reads off the published c which cell was drawn."""
    nature = Chance(1.0, seed=1)
    forecaster = mw.InsuredForecaster(lambda x: 0.5, correction, max_stake=1, c_range=(0.0, 0.0))
    agent = mw.agents.DrawReader(correction, ROUNDS, nature.outcome)
    return mw.play(nature, forecaster, agent, ROUNDS)


def main() -> None:
    """Print the example, and the table of attacks."""
    one_decision()
    print(f"\nNow {ROUNDS:,} people attack. The forecaster says 50 % every time and adapts c; its mean loss,")
    print("in units of the stake, after so many forecasts:\n")
    print(f"  {'attacker':<13} {'correction':<20}" + "".join(f"{t:>9,}" for t in SHOWN_AT))
    attacks: dict[str, Callable[[mw.Correction], Record]] = {
        "clairvoyant": clairvoyant,
        "draw reader": draw_reader,
    }
    for attacker, attack in attacks.items():
        corrections: dict[str, mw.Correction] = {
            "none": mw.NoCorrection(),
            "swap (the paper's)": mw.SwapRegret.for_horizon(ROUNDS, seed=0),
            "deterministic swap": mw.DeterministicSwap.for_horizon(ROUNDS),
        }
        for name, correction in corrections.items():
            losses = np.cumsum(attack(correction)["loss"])
            means = [losses[t - 1] / t for t in SHOWN_AT]
            verdict = "falls" if abs(means[-1]) < 0.01 else "does not fall"
            row = "".join(f"{mean:>9.4f}" for mean in means)
            print(f"  {attacker:<13} {name:<20}{row}  {verdict}", flush=True)
    print("\nThe paper's swap draws among cells, and c shows the draw: whoever reads it wins 0.17 for ever.")
    print("Deterministic swap has no draw to read.")


if __name__ == "__main__":
    main()
