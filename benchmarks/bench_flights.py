"""The flight study against a plain PyTorch loop that does the same work, step by step, in one run.

    make bench-flights

Needs torch (2.13.0), which is why it is not part of `make bench`.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np
import torch

import makewhole as mw
from makewhole import datasets
from makewhole.studies import flights
from timing import Row, print_rows

FLIGHTS, TORCH_FLIGHTS, SHARE = 50_000, 300, 0.3


def torch_season(events: datasets.Events, rounds: int) -> float:
    """Run a season with batch size 1, two nets of 8 units, plain gradient steps, 1000 passengers sorted."""
    torch.manual_seed(0)
    torch.set_num_threads(1)

    def net() -> Any:
        first, last = torch.nn.Linear(events.inputs, 8), torch.nn.Linear(8, 1)
        return torch.nn.Sequential(first, torch.nn.LeakyReLU(), last)

    mu_net, c_net = net(), net()
    for made, bias in ((mu_net, 0.5), (c_net, 0.0)):  # initialised like ours
        torch.nn.init.zeros_(made[2].weight)
        torch.nn.init.constant_(made[2].bias, bias)
    mu_step = torch.optim.SGD(mu_net.parameters(), lr=0.003)
    c_step = torch.optim.SGD(c_net.parameters(), lr=0.01)
    correction = mw.SwapRegret.for_horizon(rounds, (-0.5, 0.5), seed=0)
    cap, revenue = 300 * 0.2 * math.exp(9), 0.0
    cautious = torch.arange(1000) < 300
    naive = (torch.arange(1000) >= 300) & (torch.arange(1000) < 650)
    for t in range(rounds):
        x = torch.zeros(events.inputs)
        at = slice(events.indptr[t], events.indptr[t + 1])
        x[torch.from_numpy(events.indices[at])] = torch.from_numpy(events.data[at]).float()
        y = float(events.outcome[t])
        output = mu_net(x)
        mu = float(output.detach().clamp(0.01, 0.99))
        width = c_net(x)
        proposal = correction.propose()
        c_hat = float(width.detach().clamp(-0.5, 0.5))
        c = c_hat + proposal.lam
        r_alt, r_trip = 200 * torch.rand(1000), 400 * torch.rand(1000)
        r_trip = torch.maximum(r_alt, r_trip)
        c_delay = 0.2 * torch.exp(4 + 5 * torch.rand(1000))
        fear = torch.where(cautious, mu + c, torch.where(naive, 0.0, mu))
        price = r_trip - r_alt - fear * c_delay
        ticket = torch.sort(price, descending=True).values[300]
        flies = price > ticket
        stake = float((c_delay * (flies & cautious)).sum())
        revenue += float(ticket) * int(flies.sum())
        for group in (cautious, naive, ~(cautious | naive)):
            flying = flies & group
            float((r_trip[flying] - ticket - y * c_delay[flying]).sum() + r_alt[group & ~flies].sum())
        if stake:
            correction.observe(proposal, y - mu - c_hat, stake / cap)
        mu_step.zero_grad()
        ((output - y) ** 2).sum().backward()
        mu_step.step()
        b = stake / cap
        c_step.zero_grad()
        ((b * (y - mu) - b * width) ** 2).sum().backward()
        c_step.step()
    return revenue / rounds / 1000


def main() -> int:
    """Print the ratio, and both revenues, which must agree."""
    settings = flights.FlightSettings(rounds=FLIGHTS)
    events = flights.load(settings)
    few = events.take(np.arange(10))
    flights.simulate(few, SHARE, "swap", 0, settings)  # compile first
    torch_season(few, 10)
    theirs = ours = math.inf
    for _ in range(3):
        began = time.perf_counter()
        torch_revenue = torch_season(events, TORCH_FLIGHTS)
        theirs = min(theirs, (time.perf_counter() - began) / TORCH_FLIGHTS)
        began = time.perf_counter()
        out = flights.simulate(events, SHARE, "swap", 0, settings)
        ours = min(ours, (time.perf_counter() - began) / len(events))
    revenue = out[:TORCH_FLIGHTS, 5].mean() / 1000
    print(
        f"revenue per passenger over {TORCH_FLIGHTS} flights: ours {revenue:.2f}, torch {torch_revenue:.2f}"
    )
    row = Row(
        "a flight of 1000 passengers, swap", ours * 1e6, "a plain PyTorch loop", theirs * 1e6, "µs", 1 / 60
    )
    print(f"{1 / row.ratio:.0f} times faster")
    return 0 if print_rows([row]) else 1


if __name__ == "__main__":
    sys.exit(main())
