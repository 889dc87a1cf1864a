"""What a study is, and how each one is run: cases, claims, figures, frames, a folder of results."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import makewhole
from makewhole import arguments, pages
from makewhole.frames import BACKENDS, make_frame
from makewhole.studies import drawing, folder, paper
from makewhole.studies.claims import Claim, judged_by
from makewhole.studies.own import Entrants, read_corrections
from makewhole.studies.sweep import sweep

Result = dict[str, Any]  # the result of one case: plain numbers and arrays, its seed included
Watch = Callable[[list[Claim], int, int], None]
_EVERY_STUDY = ("rounds", "seeds", "corrections")
_SOME_STUDIES = ("shares", "data", "airline", "shuffle", "authors", "agents")
_CLAIM_COLUMNS = {
    "text": "what is claimed",
    "where": "where in the paper, or which theorem of ours",
    "verdict": "holds, fails or undecided; makewhole.studies.claims says how it is reached",
    "numbers": "the numbers behind the verdict; in brackets: 95 % intervals over seeds",
    "figure": "the figure that shows it",
    "judge": "the function that reached the verdict",
    "measured": "what was measured",
    "change": "what would change the verdict",
    "setting": "the setting: the paper's, or ours",
    "key": "the name of the paper's sentence in makewhole.studies.paper",
    "seeds": "the number of seeds",
    "quote": "the paper's own words, if the claim is the paper's",
}


@dataclass(frozen=True)
class Options:
    """The options of a study; None means the study's own choice. See `makewhole.studies.run`."""

    rounds: int | None = None
    seeds: int | None = None
    corrections: Any = None
    shares: tuple[float, ...] | None = None
    data: Any = None
    airline: str | None = None
    shuffle: bool = False
    authors: bool = False
    agents: Any = None
    jobs: int = -1
    scheduler: str | None = None

    def check(self) -> None:
        """Raise a ValueError or TypeError for an option that fits no study."""
        self.chosen()
        if self.shares == ():
            raise ValueError("shares must name at least one share of cautious passengers; got none")
        for share in self.shares or ():
            arguments.probabilities("cautious share", share)
        for name, value in (("rounds", self.rounds), ("seeds", self.seeds)):
            if value is not None:
                arguments.whole(name, value, least=1)

    def chosen(self) -> Entrants | None:
        """Return the corrections asked for; None for the study's own choice."""
        return read_corrections(self.corrections)

    def typical(self) -> bool:
        """Whether the run has the study's own settings, which the study's text describes."""
        changed = [f.name for f in fields(self) if getattr(self, f.name) is not f.default]
        return set(changed) <= {"seeds", "jobs", "scheduler"}

    def described(self) -> dict[str, Any]:
        """Return all options as plain data; makers of corrections and agents by their names."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("corrections", "agents"):
            if plain[name] is not None:
                plain[name] = [plain[name]] if isinstance(plain[name], str) else list(plain[name])
        if self.data is not None and not isinstance(self.data, str):
            plain["data"] = list(self.data) if isinstance(self.data, Mapping) else type(self.data).__name__
        return plain


class StudyPicture(NamedTuple):
    """A figure's caption, the function that draws it, and what the paper says about its own figure."""

    caption: str
    draw: Callable[[list[Result]], Any]
    quote: str = ""


@dataclass(frozen=True)
class StudyPlan:
    """A study with its options applied: the cases to run, and how to judge and draw their results."""

    run: Callable[..., Result]
    cases: list[dict[str, Any]]
    settings: Any
    judges: Sequence[Callable[[list[Result]], list[Claim]]]
    pictures: Mapping[str, StudyPicture]
    table: Callable[[list[Result]], dict[str, Any]]
    summary: Callable[[list[Result]], dict[str, Any]]
    setting: str = ""  # of the claims that do not name their own

    def compared(self, results: list[Result]) -> list[Result]:
        """Return the results of the seeds whose cases are all done: only those can be compared."""
        wanted: dict[int, int] = {}
        for case in self.cases:
            wanted[case["seed"]] = wanted.get(case["seed"], 0) + 1
        done: dict[int, int] = {}
        for result in results:
            done[result["seed"]] = done.get(result["seed"], 0) + 1
        return [r for r in results if done[r["seed"]] == wanted[r["seed"]]]

    def judged(self, results: list[Result]) -> list[Claim]:
        """Return the claims, judged by the results so far."""
        usable = self.compared(results)
        if not usable:
            return []
        claims = [claim for judge in self.judges for claim in judged_by(judge, judge(usable))]
        seeds = len({result["seed"] for result in usable})
        return [
            claim._replace(
                seeds=seeds, setting=claim.setting or self.setting, quote=claim.quote or paper.quoted(claim)
            )
            for claim in claims
        ]

    def files(self) -> list[str]:
        """Return the names of all files that a run may write."""
        figures = [f"{label}.{suffix}" for label in self.pictures for suffix in ("png", "svg")]
        return ["settings.json", "results.parquet", "summary.parquet", "report.html", *figures]


@dataclass(frozen=True)
class Study:
    """One of the paper's experiments: how to plan a run, and the words around it.

    Parameters
    ----------
    name, title
        Its name on the command line, and its heading.
    why
        What it shows, in Markdown.
    shown, next_step
        Two sentences for the end of a run: what was just shown, and what to try next.
    seeds
        How many seeds a run has by default.
    plan
        Reads the options and returns a `StudyPlan`; raises if an option does not fit.
    columns
        The meaning of every column of the frames "results" and "summary".
    takes
        The options that it takes besides rounds, seeds and corrections.
    """

    name: str
    title: str
    why: str
    shown: str
    next_step: str
    seeds: int
    plan: Callable[[Options], StudyPlan]
    columns: Mapping[str, Mapping[str, str]]
    takes: tuple[str, ...] = ()

    def closing(self, report: Path) -> tuple[str, str, str]:
        """Return three sentences for the end of a run: what was shown, what to open, what to try next."""
        return self.shown, f"Open {report} in a browser: it has the claims and the figures.", self.next_step

    def check(self, options: Options) -> None:
        """Raise a ValueError for an option that this study does not take or that does not fit."""
        options.check()
        extras = {option: getattr(options, option) for option in _SOME_STUDIES}
        for option, value in extras.items():
            if value is not None and value is not False and option not in self.takes:
                takes = ", ".join((*_EVERY_STUDY, *self.takes))
                raise ValueError(f"the study of {self.name} does not take {option}; it takes {takes}")

    def run(
        self,
        options: Options,
        out: Path | None = None,
        *,
        backend: str | None = None,
        watch: Watch | None = None,
    ) -> StudyResult:
        """Run every case and judge the claims; with `out`, also write the folder `out/<name>`.

        Ctrl-C ends the run early and keeps the results so far. With `out`, finished cases are kept in
        `out/.cache`, and a later run continues from there. `watch(claims, done, total)` is called at the
        start and after each case.
        """
        self.check(options)
        if backend is not None and backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
        plan = self.plan(options)
        if out is not None:
            folder.check(out / self.name, plan.files())

        def progress(results: list[Result], total: int) -> None:
            if watch is not None:
                watch(plan.judged(results), len(results), total)

        progress([], len(plan.cases))
        results, complete = sweep(
            plan.run,
            plan.cases,
            jobs=options.jobs,
            cache=None if out is None else out / ".cache" / _edition(),
            scheduler=options.scheduler,
            watch=progress,
        )
        result = StudyResult(self, plan, results, complete=complete, backend=backend)
        result.words = self.why if options.typical() and complete else self.shown
        if out is not None and results:  # without results, an earlier run's files stay as they are
            result.write(out / self.name, options)
        return result


class Figures(Mapping[str, Any]):
    """The figures of a run by name; each is drawn by matplotlib on first use."""

    def __init__(self, pictures: Mapping[str, StudyPicture], results: list[Result]) -> None:
        self._pictures = pictures if results else {}
        self._results = results
        self._drawn: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._drawn:
            self._drawn[name] = self._pictures[name].draw(self._results)
        return self._drawn[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pictures)

    def __len__(self) -> int:
        return len(self._pictures)


@dataclass(repr=False)
class StudyResult:
    """The results of a study.

    `results`, `summary` and `claims` are frames, and `columns` has the meaning of each of their columns:
    `columns["results"]["mean_loss"]`. `figures` are matplotlib figures by name, drawn on first use, with
    their `captions`. `judged` are the claims as tuples. `complete` is False if Ctrl-C ended the run early.
    `words` say in Markdown what it shows; for a run on the study's own data and settings, what we conclude
    from it. If a folder was written, `folder` is its path, `files` are the paths of each figure's PNG and
    SVG, and `notes` say which files were left alone.
    """

    study: Study
    plan: StudyPlan
    raw: list[Result]
    complete: bool = True
    backend: str | None = None
    words: str = ""
    folder: Path | None = None
    files: dict[str, list[Path]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        verdicts = [claim.verdict for claim in self.judged]
        counts = ", ".join(f"{v}: {verdicts.count(v)}" for v in dict.fromkeys(verdicts)) or "none"
        runs = f"{len(self.raw)} of {len(self.plan.cases)} runs"
        return f"StudyResult({self.name!r}, {runs}, claims: {{{counts}}})"

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """The meaning of every column, by frame: "results", "summary" and "claims"."""
        return {frame: dict(meaning) for frame, meaning in self.study.columns.items()} | {
            "claims": dict(_CLAIM_COLUMNS)
        }

    @property
    def captions(self) -> dict[str, str]:
        """Every figure's caption."""
        return {label: picture.caption for label, picture in self.plan.pictures.items()}

    @functools.cached_property
    def judged(self) -> list[Claim]:
        """The claims with their verdicts."""
        return self.plan.judged(self.raw)

    @functools.cached_property
    def results(self) -> Any:
        """A frame of everything measured: the curves, run by run."""
        return self._frame("results", self.plan.table)

    @functools.cached_property
    def summary(self) -> Any:
        """A frame with a row or a few for each run."""
        return self._frame("summary", self.plan.summary)

    @functools.cached_property
    def claims(self) -> Any:
        """A frame of the claims and their verdicts."""
        rows = [claim._asdict() for claim in self.judged]
        return make_frame({k: [row[k] for row in rows] for k in _CLAIM_COLUMNS}, self.backend)

    @functools.cached_property
    def figures(self) -> Figures:
        """The figures by name, each drawn on first use."""
        return Figures(self.plan.pictures, self.plan.compared(self.raw))

    def _frame(self, name: str, table: Callable[[list[Result]], dict[str, Any]]) -> Any:
        columns = table(self.raw) if self.raw else {column: [] for column in self.study.columns[name]}
        return make_frame(columns, self.backend)

    def write(self, path: Path, options: Options) -> None:
        """Write Parquet, figures, settings and a report into a folder; see `makewhole.studies.folder`."""
        missing = f"stopped after {len(self.raw)} of {len(self.plan.cases)} runs"
        partial = "" if self.complete else missing
        settings = {
            "study": self.name,
            "settings": vars(self.plan.settings),
            "options": options.described(),
            "partial": partial,
        }

        def fill(draft: Path) -> None:
            text = json.dumps(settings, indent=1, default=str) + "\n"
            (draft / "settings.json").write_text(text, encoding="utf-8")
            for name, table in (("results", self.plan.table), ("summary", self.plan.summary)):
                make_frame(table(self.raw), "polars").write_parquet(draft / f"{name}.parquet")
            drawn = {label: drawing.save(figure, draft, label) for label, figure in self.figures.items()}
            findings = [pages.Finding(*claim[:6]) for claim in self.judged]
            embedded = {label: (self.captions[label], paths[0]) for label, paths in drawn.items()}
            last = "The settings of this run are in settings.json, all its numbers in results.parquet."
            page = pages.render(self.study.title, self.words, findings, embedded, partial=partial, last=last)
            (draft / "report.html").write_text(page, encoding="utf-8")

        self.notes = folder.write(path, self.plan.files(), fill)
        self.folder = path
        self.files = {label: [path / f"{label}.{s}" for s in ("png", "svg")] for label in self.figures}


def as_columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Turn rows into columns by name."""
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _edition() -> str:
    """Return a name that changes with our sources: joblib's memory looks only at the function it is given."""
    sources = sorted(Path(str(makewhole.__file__)).parent.rglob("*.py"))
    value = functools.reduce(lambda seen, path: zlib.crc32(path.read_bytes(), seen), sources, 0)
    return f"{value:08x}"
