"""What the stage `examine` finds in the training rows, and the files that it writes.

    suspects.csv          rows whose label is suspected to be wrong, the most suspicious first
    near_duplicates.csv   pairs of similar texts with different labels, the most similar first, at most 1,000
    learning_curve.json   accuracy by number of training rows, and with twice the rows
    findings.json         the findings in numbers, for the first screen of the report

A run copies the first three into its folder. A text that a spreadsheet program would run as a formula begins with an
apostrophe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.files import atomic_file, write_json

if TYPE_CHECKING:
    from epigram.evaluation.quality.learning_curve import LearningCurve

SUSPECTS, NEAR_DUPLICATES, LEARNING_CURVE = "suspects.csv", "near_duplicates.csv", "learning_curve.json"
FINDINGS = "findings.json"
FILES = (SUSPECTS, NEAR_DUPLICATES, LEARNING_CURVE)


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A row whose label is suspected; `margin` is p(likely label) − p(given label)."""

    row: int
    label: str
    likely_label: str
    margin: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two rows with similar texts and different labels."""

    row: int
    label: str
    other_row: int
    other_label: str
    similarity: float
    text: str
    other_text: str


@dataclass(frozen=True, kw_only=True)
class DataQuality:
    """Findings about the training rows; the reasons say why a part is empty."""

    rows: int  # training rows
    judged: int = 0  # rows whose labels were compared with predictions
    accuracy: float = 0.0  # accuracy of the predictions
    compared: int = 0  # different texts that were compared with each other
    suspects: list[Suspect] = field(default_factory=list)
    expected_wrong: float = 0.0  # upper estimate of the number of suspects whose label is wrong
    pairs: list[Pair] = field(default_factory=list)  # the most similar pairs
    pair_count: int = 0  # number of all pairs, also of pairs that `pairs` lacks
    curve: LearningCurve | None = None
    reason: str = ""  # why no labels were judged
    curve_reason: str = ""  # why there is no learning curve


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Number of suspected labels, an upper estimate of how many are wrong, and what more labels would do."""

    suspects: int
    expected_wrong: float
    outlook: str


def write_quality(folder: Path, quality: DataQuality, outlook: str) -> None:
    """Write the four files into `folder`; `outlook` is a sentence about the learning curve, "" without one."""
    found = Findings(suspects=len(quality.suspects), expected_wrong=quality.expected_wrong, outlook=outlook)
    write_json(folder / FINDINGS, asdict(found))
    _write_csv(folder / SUSPECTS, Suspect, quality.suspects)
    _write_csv(folder / NEAR_DUPLICATES, Pair, quality.pairs)
    curve = asdict(quality.curve) if quality.curve else None
    reason = quality.curve_reason or quality.reason
    write_json(
        folder / LEARNING_CURVE, {"rows": quality.rows, "judged": quality.judged, "reason": reason} | {"curve": curve}
    )


def _write_csv(path: Path, kind: type[Suspect] | type[Pair], records: Sequence[Suspect | Pair]) -> None:
    """Write one line per record, and a heading also if there are none."""
    import polars as pl

    from epigram.core.spreadsheet import escape_formulas

    columns = {"int": pl.Int64, "float": pl.Float64, "str": pl.String}
    schema = {name: columns[str(hint)] for name, hint in kind.__annotations__.items()}
    frame, _ = escape_formulas(pl.DataFrame([asdict(record) for record in records], schema))
    with atomic_file(path) as temporary:
        frame.write_csv(temporary, float_precision=4)
