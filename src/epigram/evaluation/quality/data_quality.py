"""What the stage `examine` finds in the training rows, and the files with it beside the report.

    suspects.csv          rows whose label is suspected to be wrong, the most suspicious first
    near_duplicates.csv   pairs of similar texts with different labels, the most similar first, at most 1,000
    learning_curve.json   accuracy by number of training rows, and with twice the rows

A text that a spreadsheet program would run as a formula begins with an apostrophe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from epigram.core.files import atomic_file, write_json
from epigram.core.masking import masked_value
from epigram.evaluation.quality.learning_curve import LearningCurve

SUSPECTS, NEAR_DUPLICATES, LEARNING_CURVE = "suspects.csv", "near_duplicates.csv", "learning_curve.json"
JUDGE = 0.5  # errors of predictions that can judge labels, at most, in errors of the commonest label for every text
QUALITY = "quality.json"  # the findings as `examine` writes them
FILES = (SUSPECTS, NEAR_DUPLICATES, LEARNING_CURVE)


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A row whose label is suspected; `margin` is p(likely label) − p(given label)."""

    file: str
    line: int
    label: str
    likely_label: str
    margin: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two rows with similar texts and different labels."""

    file: str
    line: int
    label: str
    other_file: str
    other_line: int
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
    commonest: float = 0.0  # share of the commonest label in the judged rows
    compared: int = 0  # different texts that were compared with each other
    suspects: list[Suspect] = field(default_factory=list)
    expected_wrong: float = 0.0  # upper estimate of the number of suspects whose label is wrong
    pairs: list[Pair] = field(default_factory=list)  # the most similar pairs
    pair_count: int = 0  # number of all pairs, also of pairs that `pairs` lacks
    curve: LearningCurve | None = None
    reason: str = ""  # why no labels were judged
    curve_reason: str = ""  # why there is no learning curve

    @property
    def can_judge(self) -> bool:
        """Whether the predictions are good enough to tell wrong labels from hard texts."""
        return 1 - self.accuracy <= JUDGE * (1 - self.commonest)


def write_quality(folder: Path, quality: DataQuality) -> None:
    """Write the three files into `folder`."""
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
    rows = [{name: masked_value(value) for name, value in asdict(record).items()} for record in records]
    frame, _ = escape_formulas(pl.DataFrame(rows, schema))
    with atomic_file(path) as temporary:
        frame.write_csv(temporary, float_precision=4)


def describe_quality(quality: DataQuality) -> str:
    """Return what a log says about the findings."""
    if quality.reason and not quality.compared:
        return quality.reason
    counts = f"{len(quality.suspects):,} suspected labels in {quality.judged:,} rows"
    near = f"{quality.pair_count:,} pairs of near duplicates with different labels"
    if quality.pair_count > len(quality.pairs):
        near += f" ({NEAR_DUPLICATES} has the first {len(quality.pairs):,})"
    return "; ".join([counts, near, *([outlook(quality.curve)] if quality.curve else [])])


def outlook(curve: LearningCurve) -> str:
    """Return what to expect of twice the training rows, as a sentence."""
    change = f"from about {100 * curve.now:.0f}% to about {100 * curve.doubled.value:.0f}%"
    saying = {
        "helps": "More labelled texts are expected to help",
        "unclear": "Whether more labelled texts would help is unclear",
        "flat": "More labelled texts are not expected to help",
    }[curve.outlook]
    return (
        f"{saying}: with twice the training texts, the accuracy of a quick linear model, not the chosen one, would go "
        f"{change}, by the learning curve"
    )
