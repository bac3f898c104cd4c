"""What is known of one evaluated system, and how it is kept on disk.

`metrics.json` holds the numbers (`Metrics`), `predictions.safetensors` the probabilities they were made from.
Scores are shares between 0 and 1.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from pithy.errors import DataError, InputMissingError
from pithy.evaluation.arrays import Bools, Floats, Ints
from pithy.files import atomic_folder, read_arrays, read_json, write_arrays, write_json

T = TypeVar("T")

Task = Literal["single", "multi"]
ScoreName = Literal["accuracy", "micro_f1", "token_f1"]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A score with its bootstrap percentile interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of one split. Multi-label: `accuracy` is subset accuracy (every label of a row right)."""

    accuracy: float
    macro_f1: float
    micro_f1: float
    weighted_f1: float
    micro_precision: float
    micro_recall: float
    hamming_loss: float


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Scores of one label, averaged over the seeds; `support` counts its test rows, or its words."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, kw_only=True)
class TokenScores:
    """Scores of the words of one split; precision, recall and F are micro averages over all labels but the default.

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
    """Neighbouring words with the same predicted and the same gold label."""

    text: str
    predicted: str
    gold: str


@dataclass(frozen=True, kw_only=True)
class Example:
    """A test row, its words labelled by most of the seeds."""

    row: int
    pieces: list[Piece]


@dataclass(frozen=True, kw_only=True)
class TokenMetrics:
    """How well a system labels words, averaged over the seeds."""

    labels: list[str]  # the default one first
    dev: TokenScores
    test: TokenScores
    test_f1: Interval
    test_f05: Interval
    test_span_f1: Interval
    classes: list[ClassScores]
    examples: list[Example]


@dataclass(frozen=True, kw_only=True)
class Bin:
    """One bar of the reliability picture: predictions whose confidence lies in (low, high]."""

    low: float
    high: float
    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far confidence can be believed, on the test set; `temperature` is fitted on the development set."""

    ece: float
    brier: float
    temperature: float
    ece_scaled: float


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The score of a part of the test set."""

    kind: Literal["length", "leak"]
    name: str
    rows: int
    score: Interval


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong prediction; `probability` is the model's for what it said (multi-label: for its surest wrong label)."""

    row: int
    text: str
    gold: list[str]
    predicted: list[str]
    probability: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one model costs on any machine. `*_full`: before pruning; depth is absent where there are no layers."""

    parameters: int
    parameters_full: int
    depth: int | None
    depth_full: int | None
    flops: float  # one text of the median length


@dataclass(frozen=True, kw_only=True)
class Alone:
    """Accuracy of one of a head's classifiers without the others."""

    name: str
    dev: float
    test: float


@dataclass(frozen=True, kw_only=True)
class SeedMetrics:
    """One seed of a system; `dev_score` and `test_score` are in the score that systems are ranked by.

    `thresholds` (multi-label) are tuned on the development set, one a label; the scores of words are absent where the
    system labels none. `alone` has the classifiers of a head that names several.
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
    alone: list[Alone] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """All numbers of one system; what is not under `seeds` is averaged over the seeds.

    `tokens` is absent where the system labels no words. `sentence_f1`, where the corpus labels words and gives each
    text one label, is the micro-F1 of the texts' labels other than `plain`, that of the texts without a marked word.
    """

    system: str
    task: Task
    score: ScoreName  # what systems are ranked by
    confidence: float  # of every interval
    labels: list[str]
    seeds: list[SeedMetrics]
    dev: Scores
    test: Scores
    dev_score: Interval
    test_score: Interval
    test_macro_f1: Interval
    classes: list[ClassScores]
    confusion: list[list[int]]  # rows gold, columns predicted, summed over the seeds; empty for multi-label
    calibration: Calibration
    reliability: list[Bin]
    slices: list[Slice]
    mistakes: list[Mistake]
    tokens: TokenMetrics | None = None
    sentence_f1: Interval | None = None
    plain: str | None = None


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Probabilities of every seed and the truth; labels are (N,) class numbers or (N, C) indicators.

    Where the corpus labels words, `*_word_labels` are their label numbers, 0 the default, and row n has the words from
    `*_word_offsets[n]` to `*_word_offsets[n + 1]`; `*_word_predictions` are absent where the system labels none.
    """

    dev_probabilities: Floats  # (K, N_dev, C)
    test_probabilities: Floats  # (K, N_test, C)
    dev_labels: Ints
    test_labels: Ints
    dev_rows: Ints  # (N_dev,)
    test_rows: Ints  # (N_test,)
    test_in_train: Bools  # (N_test,)
    dev_word_labels: Ints | None = None  # (T_dev,)
    dev_word_offsets: Ints | None = None  # (N_dev + 1,)
    dev_word_predictions: Ints | None = None  # (K, T_dev)
    test_word_labels: Ints | None = None
    test_word_offsets: Ints | None = None
    test_word_predictions: Ints | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Numbers and predictions of one system."""

    metrics: Metrics
    predictions: Predictions


def write(folder: Path, evaluation: Evaluation) -> None:
    """Write `metrics.json` and `predictions.safetensors`; the folder appears whole or not at all."""
    with atomic_folder(folder) as temporary:
        write_json(temporary / "metrics.json", asdict(evaluation.metrics))
        write_arrays(temporary / "predictions.safetensors", _present(evaluation.predictions))


def read(folder: Path) -> Evaluation:
    """Read what `write` wrote. Raises InputMissingError or DataError, naming the file."""
    metrics = from_json(Metrics, folder / "metrics.json")
    path = folder / "predictions.safetensors"
    arrays = read_arrays(path)
    missing = {each.name for each in fields(Predictions) if each.default is MISSING} - arrays.keys()
    if missing:
        raise DataError(f"{path} lacks {', '.join(sorted(missing))}: delete {folder} and run dvc repro")
    return Evaluation(metrics=metrics, predictions=Predictions(**arrays))


def _present(predictions: Predictions) -> dict[str, Any]:
    return {name: array for name, array in vars(predictions).items() if array is not None}


def read_text(path: Path) -> str:
    """Read a text file. Raises InputMissingError or DataError, naming it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}: delete it and run dvc repro") from None


def from_json(kind: type[T], path: Path) -> T:
    """Read a JSON file into the dataclass `kind`. Raises InputMissingError or DataError, naming the file."""
    from pydantic import TypeAdapter, ValidationError

    values: Any = read_json(path)
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise DataError(f"{path} is not as this version of pithy writes it (at {where}): run dvc repro") from None
