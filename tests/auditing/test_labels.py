"""Labels of groups: the same text whichever engine gave them."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.auditing.labels import MISSING, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (3.0, "3"),
        (np.float64(-2.0), "-2"),
        (np.float32(0.0), "0"),
        (3.5, "3.5"),
        (-0.25, "-0.25"),
        (float("inf"), "inf"),
        (float("nan"), MISSING),
        (None, MISSING),
        (pd.NA, MISSING),
        (pd.NaT, MISSING),
        ("", ""),
        ("3.0", "3.0"),
        (True, "True"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_a_label_is_written_the_same_whatever_kind_of_number_it_came_as(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_whole_numbers_and_missing_values_name_their_groups() -> None:
    table = pd.DataFrame({"mu": 0.5, "y": [0, 1, 1, 0, 1], "g": [1.0, 1.0, 2.5, np.nan, np.nan]})
    found = mw.audit(table, groups="g", bins=1).groups["g"]
    assert {name: one.rows for name, one in found.items()} == {"1": 2, MISSING: 2, "2.5": 1}
