"""Results of one evaluated system and their files.

`metrics.json` holds the numbers (`Metrics`), `predictions.safetensors` the probabilities that they are computed from.
Scores are between 0 and 1.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import atomic_folder, read_arrays, write_arrays, write_json
from epigram.core.records import read_record
from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.calibration_results import Bin, Calibration, Coverage

Task = Literal["single", "multi"]
ScoreName = Literal["accuracy", "micro_f1", "token_f1"]
Decision = Literal["threshold", "decoder"]


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
    micro_f1: float
    weighted_f1: float
    micro_precision: float
    micro_recall: float
    hamming_loss: float


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

    kind: Literal["length", "leak"]
    name: str
    rows: int
    score: Interval


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Wrong prediction with the model's `probability` for it (multi-label: for its most confident wrong decision)."""

    row: int
    text: str
    gold: list[str]
    predicted: list[str]
    probability: float


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
    flops: float  # of one text of median length
    parameters_without_embeddings: int | None = None
    batch_macs: float | None = None


@dataclass(frozen=True, kw_only=True)
class ClassifierAccuracy:
    """Accuracy of one classifier of a head, used without the others."""

    name: str
    dev: float
    test: float


@dataclass(frozen=True, kw_only=True)
class SeedMetrics:
    """Metrics of one seed of a system; `dev_score` and `test_score` are values of the score that ranks the systems.

    `thresholds` (multi-label), one per label, are those of the model, tuned on held-out texts, or 0.5 if a decoder
    decides. The token scores are None if the system labels no words. `alone` has one entry for each classifier that the
    head names.
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
    alone: list[ClassifierAccuracy] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Metrics of one system; everything outside `seeds` is averaged over the seeds.

    `tokens` is None if the system labels no words. `sentence_f1` exists if the corpus labels words and each text has
    one label: it is the micro-F1 of the text labels other than `plain`, the label of texts without a marked word.
    `confusion` has a row for each gold label and a column for each predicted one; of more than 20 labels it has cells
    [gold, predicted, rows] instead (see `evaluation.confusion`), and for multi-label it is empty.
    """

    system: str
    task: Task
    score: ScoreName  # ranks the systems
    confidence: float  # level of every interval
    labels: list[str]
    seeds: list[SeedMetrics]
    dev: Scores
    test: Scores
    dev_score: Interval
    test_score: Interval
    test_macro_f1: Interval
    classes: list[ClassScores]
    confusion: list[list[int]]  # summed over the seeds; see below
    calibration: Calibration
    reliability: list[Bin]
    slices: list[Slice]
    mistakes: list[Mistake]
    tokens: TokenMetrics | None = None
    sentence_f1: Interval | None = None
    plain: str | None = None
    coverage: list[Coverage] = field(default_factory=list)  # empty for multi-label, which has a threshold per label
    decision: Decision = "threshold"  # what selects the labels of a multi-label text


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Probabilities of every seed and the gold labels; labels are (N,) class numbers or (N, C) indicators.

    If a text has one of more than 20 labels, `*_probabilities` are those of its 20 most probable labels,
    `*_top_labels`, and those of the other labels sum to `*_rest`.

    If the corpus has token labels, `*_word_labels` are the label numbers of all words (0 is the default label), and row
    n has the words from `*_word_offsets[n]` to `*_word_offsets[n + 1]`. `*_word_predictions` and `*_word_probabilities`
    are None if the system labels no words; a word that the model did not read has the probabilities 0.
    """

    dev_probabilities: Floats  # (K, N_dev, C) or (K, N_dev, 20)
    test_probabilities: Floats  # (K, N_test, C) or (K, N_test, 20)
    dev_labels: Ints
    test_labels: Ints
    dev_rows: Ints  # (N_dev,)
    test_rows: Ints  # (N_test,)
    test_in_train: Bools  # (N_test,)
    dev_word_labels: Ints | None = None  # (T_dev,)
    dev_word_offsets: Ints | None = None  # (N_dev + 1,)
    dev_word_predictions: Ints | None = None  # (K, T_dev)
    dev_word_probabilities: Floats | None = None  # (K, T_dev, S), in half precision
    test_word_labels: Ints | None = None
    test_word_offsets: Ints | None = None
    test_word_predictions: Ints | None = None
    test_word_probabilities: Floats | None = None
    dev_top_labels: Ints | None = None  # (K, N_dev, 20)
    dev_rest: Floats | None = None  # (K, N_dev)
    test_top_labels: Ints | None = None
    test_rest: Floats | None = None
    # fold of each row of train, (N,), if a cross-validation replaces dev, or dev and test
    dev_folds: Ints | None = None
    test_folds: Ints | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Metrics and predictions of one system."""

    metrics: Metrics
    predictions: Predictions


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Write the folder of an evaluation atomically."""
    with atomic_folder(folder) as temporary:
        write_files(temporary, evaluation)


def write_files(folder: Path, evaluation: Evaluation) -> None:
    """Write `metrics.json` and `predictions.safetensors` into an existing folder."""
    write_json(folder / "metrics.json", asdict(evaluation.metrics))
    write_arrays(folder / "predictions.safetensors", _present(evaluation.predictions))


def read_metrics(folder: Path) -> Metrics:
    """Read the metrics of an evaluation. Raises InputMissingError or DataError, which name the file."""
    return read_record(Metrics, folder / "metrics.json")


def read_evaluation(folder: Path) -> Evaluation:
    """Read an evaluation that `write` wrote. Raises InputMissingError or DataError, which name the file."""
    metrics = read_metrics(folder)
    path = folder / "predictions.safetensors"
    arrays = read_arrays(path)
    missing = {each.name for each in fields(Predictions) if each.default is MISSING} - arrays.keys()
    if missing:
        raise DataError(f"{path} lacks {', '.join(sorted(missing))}; delete {folder} and run dvc repro")
    if unknown := arrays.keys() - {each.name for each in fields(Predictions)}:
        raise DataError(f"{path} has unknown arrays {', '.join(sorted(unknown))}; delete {folder} and run dvc repro")
    return Evaluation(metrics=metrics, predictions=Predictions(**arrays))


def _present(predictions: Predictions) -> dict[str, Any]:
    return {name: array for name, array in vars(predictions).items() if array is not None}


def read_text(path: Path) -> str:
    """Read a text file. Raises InputMissingError or DataError, which name it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}: delete it and run dvc repro") from None
