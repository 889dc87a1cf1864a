"""Certify half-widths c, cell by cell, from rows that neither the model nor its map has seen."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole.arguments import Floats
from makewhole.auditing.audit import audit_arrays
from makewhole.auditing.report import AuditReport
from makewhole.mending.labels import Labels

# Without groups all rows are one group, with this name and this label.
EVERYONE = ""


@dataclass(frozen=True)
class CertifyingRows:
    """The rows that certify: their outcomes, labels, weights (or None) and clusters (or None).

    `largest_cluster` is the size (the sum of the weights) that no cluster can exceed; None if not known.
    """

    outcome: Any
    labels: Labels
    weight: Floats | None
    cluster: Any
    largest_cluster: float | None = None

    def audit(self, published: Floats, labels: Labels | None = None, **options: Any) -> AuditReport:
        """Audit the published forecasts of these rows, by their own labels or by those given."""
        labels = self.labels if labels is None else labels
        most = max([1000, *(len(np.unique(values)) for values in labels.values())])
        options |= {"max_groups": most, "largest_cluster": self.largest_cluster}
        published = published[:, 0] if published.shape[1] == 1 else published
        given = {"weight": self.weight, "cluster": self.cluster}
        return audit_arrays(self.outcome, published, labels, **given, **options)


@dataclass(frozen=True)
class LevelsCertificate:
    """The c of every cell: of every label of every grouping, at every level of the forecast.

    `report` is the audit with one cell per level and label. `c` has, by grouping and label, the c of each
    level. `most` is the c of each level that promises nothing, max(μ, 1 − μ).
    """

    report: AuditReport
    c: Mapping[str, Mapping[str, Floats]]
    most: Floats

    @property
    def widest(self) -> float:
        """The largest c of all cells."""
        return max(self.widest_of(name) for name in self.c)

    def widest_of(self, name: str) -> float:
        """The largest c of one grouping."""
        return max(float(widths.max()) for widths in self.c[name].values())

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return sum(len(widths) for labels in self.c.values() for widths in labels.values())

    def widths(self, levels: Any, labels: Labels) -> tuple[Floats, dict[str, list[str]]]:
        """Return each row's c, the largest of its cells', and the labels never seen, by grouping."""
        width, unseen = np.zeros(len(levels)), dict[str, list[str]]()
        for name, values in (labels or _everyone(len(levels))).items():
            different, place = np.unique(values, return_inverse=True)
            unknown = [str(label) for label in different if label not in self.c[name]]
            if unknown:
                unseen[name] = unknown
            nothing = np.full(len(next(iter(self.c[name].values()))), self.widest_of(name))
            table = np.stack([self.c[name].get(str(label), nothing) for label in different])
            width = np.maximum(width, table[place, levels])
        return width, unseen


def certify(
    evidence: CertifyingRows, levels: Any, values: Floats, known: Mapping[str, Any], confidence: float
) -> LevelsCertificate:
    """Bound, for all cells together, how far the truth may be from the published forecast.

    `levels` are the rows' levels and `values` the forecast at each. `known` are the labels of each grouping
    that `fit` has seen. A cell without rows has the c that cannot be wrong, max(μ, 1 − μ).

    Each side of a cell's bounds is wrong with half the audit's risk. Here μ was fixed before these outcomes,
    so the truth lies on one side of it, and c can be too small only if the bound on that side is wrong. So
    the audit may take twice the risk.
    """
    two_sided = 1 - 2 * (1 - confidence) if confidence > 0.5 else confidence
    groupings = evidence.labels or _everyone(len(levels))
    numbers = np.char.add(levels.astype(str), ": ")
    cells = {f"level, {name}" if name else "level": np.char.add(numbers, v) for name, v in groupings.items()}
    report = evidence.audit(values[levels], cells, bins=1, confidence=two_sided)
    most = np.maximum(values, 1 - values).max(axis=1)
    c: dict[str, dict[str, Floats]] = {}
    for grouping, name in zip(cells, groupings, strict=True):
        findings = report.groups[grouping]
        c[name] = {}
        for label in known.get(name, [EVERYONE]):
            here = [findings.get(f"{level}: {label}") for level in range(len(values))]
            bound = [math.inf if finding is None else finding.certified_c for finding in here]
            c[name][str(label)] = np.minimum(bound, most)
    return LevelsCertificate(report, c, most)


def warn_of_little(
    evidence: CertifyingRows, levels: Any, certificate: LevelsCertificate, confidence: float
) -> None:
    """Warn if more than a share 1 − confidence of the rows have a c that promises nothing.

    By Hoeffding's inequality n rows bound a frequency to within ½ if n >= 2·ln(cells / risk).
    """
    empty = certificate.widths(levels, evidence.labels)[0] >= certificate.most[levels]
    if empty.mean() <= 1 - confidence:
        return
    fewest = len(levels)
    for values in (evidence.labels or _everyone(len(levels))).values():
        cells = np.char.add(np.char.add(levels[empty].astype(str), ": "), values[empty])
        fewest = min(fewest, int(np.unique(cells, return_counts=True)[1].min()))
    per_cell = 2 * math.log(certificate.cells / (1 - confidence))
    needed = math.ceil(len(levels) * max(per_cell / fewest, 2.0))
    warnings.warn(
        f"there are too few certification rows, {len(levels):,}: {empty.mean():.0%} of them are in cells "
        f"with c = max(μ, 1 − μ), which promises nothing; about {needed:,} would be enough (give more rows, "
        "a larger holdout, or fewer groups)",
        stacklevel=6,
    )


def _everyone(rows: int) -> Labels:
    return {EVERYONE: np.full(rows, EVERYONE, dtype="<U1")}
