"""Results of one evaluated system and their files.

`metrics.json` holds the numbers (`Metrics`), `predictions.safetensors` the arrays of `SplitRecord` that they are
computed from, with the prefixes `dev_` and `test_`; these are memory-mapped. Scores are between 0 and 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from epigram.core.arrays import map_arrays
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import atomic_folder, write_arrays, write_json
from epigram.core.records import read_record
from epigram.evaluation.records.split_record import ARRAYS, SplitRecord


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Bin of the reliability chart: predictions with a confidence in (low, high]."""

    low: float
    high: float
    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration on the test set.

    `temperature` is the model's own, fitted on the development set. `ece` and `brier` are of the calibrated
    probabilities. `ece_uncalibrated` is the error without the temperature, None for a cross-validation.
    """

    ece: float
    brier: float
    temperature: float
    ece_uncalibrated: float | None


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Test predictions with at least a minimum confidence, and the share of them that is correct.

    `confidence` is chosen on the development set so that it keeps `dev_coverage` of its texts. `accuracy` is None if no
    test text reaches it.
    """

    dev_coverage: float
    confidence: float
    coverage: float
    accuracy: float | None


Task = Literal["single", "multi"]
Decision = Literal["threshold", "decoder"]
SplitName = Literal["dev", "test"]
SPLITS: tuple[SplitName, SplitName] = ("dev", "test")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Score with its bootstrap percentile interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of one split. Multi-label: `accuracy` is subset accuracy (all labels of a row are correct)."""

    accuracy: float
    macro_f1: float
    macro_recall: float
    micro_f1: float
    weighted_f1: float
    micro_precision: float
    micro_recall: float
    hamming_loss: float


@dataclass(frozen=True, kw_only=True)
class SentenceScores:
    """Micro averages over the text labels other than the plain one: P*, R* and F1* of Pislar and Rei, 2020, Table 1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Scores of one label, averaged over the seeds; `support` is its number of test rows or words."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, kw_only=True)
class TokenScores:
    """Scores of the words of one split; precision, recall and F are micro averages over the non-default labels.

    `span_*` count whole spans of the right type. `border_*` count spans with the right borders and take their type
    from gold: C-P, C-R and C-F1 of Pislar and Rei, Seeing Both the Forest and the Trees, 2020, Table 2.
    """

    accuracy: float
    precision: float
    recall: float
    f1: float
    f05: float
    span_precision: float
    span_recall: float
    span_f1: float
    border_precision: float
    border_recall: float
    border_f1: float


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Adjacent words with the same predicted and the same gold label."""

    text: str
    predicted: str
    gold: str


@dataclass(frozen=True, kw_only=True)
class Example:
    """Test row with its words labelled by a vote of the seeds."""

    row: int
    pieces: list[Piece]


@dataclass(frozen=True, kw_only=True)
class TokenMetrics:
    """Word-level metrics of a system, averaged over the seeds."""

    labels: list[str]  # the default one first
    dev: TokenScores
    test: TokenScores
    test_f1: Interval
    test_f05: Interval
    test_span_f1: Interval
    classes: list[ClassScores]
    examples: list[Example]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Score of a part of the test set."""

    kind: Literal["length", "leak", "column"]
    name: str
    rows: int
    score: Interval
    column: str = ""  # the column whose value is the name


@dataclass(frozen=True, kw_only=True)
class LevelScores:
    """Test scores of a level of labels that are paths; level 1 has the `labels` before the first separator."""

    level: int
    labels: int
    accuracy: Interval
    macro_f1: Interval


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Wrong prediction with the model's `probability` for it (multi-label: for its most confident wrong decision).

    `file` and `line` are the row's place in the data. `words` has start, end and weight, from -1 to 1, of the words
    that speak for and against the wrong label; it is empty if the error is not explained.
    """

    row: int
    text: str
    gold: list[str]
    predicted: list[str]
    probability: float
    file: str = ""
    line: int = 0
    words: list[tuple[int, int, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class WordFaithfulness:
    """Mean fall of a label's probability without the words with the highest scores, over the `rows` explained errors.

    `comprehensiveness` and `random_comprehensiveness` are as in inference.predictors.explanation.
    """

    method: str
    rows: int
    comprehensiveness: float
    random_comprehensiveness: float

    @property
    def clear(self) -> bool:
        """Whether the top words lower the probability more than twice as much as random words."""
        return self.comprehensiveness > 2 * max(0.0, self.random_comprehensiveness)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Machine-independent cost of one model. `*_full`: before pruning. Depth is None for a model without layers.

    `parameters_without_embeddings` leaves out the embedding tables. `batch_macs` are the multiply-adds of 6,400 tokens
    in the layers with weights, the "FLOPs" of DMSP, Table 4. Both are None in results of older versions.
    """

    parameters: int
    parameters_full: int
    depth: int | None
    depth_full: int | None
    flops: float  # per text of median length
    parameters_without_embeddings: int | None = None
    batch_macs: float | None = None


@dataclass(frozen=True, kw_only=True)
class ClassifierAccuracy:
    """Accuracy of one classifier of a head, used alone."""

    name: str
    dev: float
    test: float


@dataclass(frozen=True, kw_only=True)
class SeedMetrics:
    """Metrics of one seed of a system; `dev_score` and `test_score` are values of the score that ranks the systems.

    `thresholds` (multi-label) are the model's, one per label, tuned on held-out texts, or 0.5 if a decoder decides. The
    token scores are None if the system labels no words, and `test_sentences` if the corpus labels none. `alone` has one
    entry for each classifier that the head names.
    """

    seed: int
    dev: Scores
    test: Scores
    dev_score: float
    test_score: float
    calibration: Calibration
    cost: Cost
    thresholds: list[float] = field(default_factory=list)
    dev_tokens: TokenScores | None = None
    test_tokens: TokenScores | None = None
    test_sentences: SentenceScores | None = None
    alone: list[ClassifierAccuracy] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Metrics of one system; everything outside `seeds` is averaged over the seeds.

    `tokens` is None if the system labels no words. `sentence_f1` exists if the corpus labels words and each text has
    one label: it is the micro-F1 of the text labels other than `plain`, the label of texts without a marked word.
    `test_sentences` are its mean and the means of the precision and the recall.
    `confusion` has cells [gold label, predicted label, rows], see metrics.mistakes; for multi-label it is empty.
    """

    system: str
    task: Task
    score: str  # name of the primary metric, which ranks the systems
    confidence: float  # level of every interval
    labels: list[str]
    seeds: list[SeedMetrics]
    dev: Scores
    test: Scores
    dev_score: Interval
    test_score: Interval
    test_macro_f1: Interval
    classes: list[ClassScores]
    confusion: list[list[int]]  # (M, 3), summed over the seeds
    calibration: Calibration
    reliability: list[Bin]
    slices: list[Slice]
    mistakes: list[Mistake]
    faithfulness: WordFaithfulness | None = None  # how well the words explain the mistakes, if any is explained
    tokens: TokenMetrics | None = None
    sentence_f1: Interval | None = None
    test_sentences: SentenceScores | None = None
    plain: str | None = None
    coverage: list[Coverage] = field(default_factory=list)  # empty for multi-label, which has a threshold per label
    decision: Decision = "threshold"  # selection of the labels of a multi-label text
    cost: dict[str, dict[str, float]] | None = None  # prices, where the score is `cost`
    about: str = ""  # what kind of model it is, in a phrase
    room: int = 0  # maximum number of tokens of a text that the system reads; 0 if unknown
    truncated: int = 0  # test texts that are longer
    hierarchy: str = ""  # separator of the levels in the labels
    levels: list[LevelScores] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Metrics of one system, and the predictions for each split that they are computed from."""

    metrics: Metrics
    dev: SplitRecord
    test: SplitRecord

    def split(self, name: SplitName) -> SplitRecord:
        """Return the record of a split."""
        return self.dev if name == "dev" else self.test


def write_evaluation(folder: Path, evaluation: Evaluated) -> None:
    """Write the folder of an evaluation atomically."""
    with atomic_folder(folder) as temporary:
        write_files(temporary, evaluation)


def write_files(folder: Path, evaluation: Evaluated) -> None:
    """Write `metrics.json` and `predictions.safetensors` into an existing folder."""
    write_json(folder / "metrics.json", asdict(evaluation.metrics))
    arrays = {f"{name}_{kind}": array for name in SPLITS for kind, array in evaluation.split(name).arrays().items()}
    write_arrays(folder / "predictions.safetensors", arrays)


def read_metrics(folder: Path) -> Metrics:
    """Read the metrics of an evaluation. Raises InputMissingError or DataError, which name the file."""
    return read_record(Metrics, folder / "metrics.json")


def read_evaluation(folder: Path) -> Evaluated:
    """Read an evaluation that `write` wrote. Raises InputMissingError or DataError, which name the file."""
    metrics = read_metrics(folder)
    path = folder / "predictions.safetensors"
    arrays = map_arrays(path)
    missing = {f"{name}_{kind}" for name in SPLITS for kind in ("probabilities", "labels", "rows")} - arrays.keys()
    if missing:
        raise DataError(f"{path} lacks {', '.join(sorted(missing))}; delete {folder} and run dvc repro")
    if unknown := arrays.keys() - {f"{name}_{kind}" for name in SPLITS for kind in ARRAYS}:
        raise DataError(f"{path} has unknown arrays {', '.join(sorted(unknown))}; delete {folder} and run dvc repro")
    splits = {
        name: SplitRecord.of({kind: arrays[f"{name}_{kind}"] for kind in ARRAYS if f"{name}_{kind}" in arrays})
        for name in SPLITS
    }
    return Evaluated(metrics=metrics, **splits)


def read_text(path: Path) -> str:
    """Read a text file. Raises InputMissingError or DataError, which name it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}: delete it and run dvc repro") from None
