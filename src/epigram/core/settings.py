"""Typed settings of params.yaml: one dataclass per section; unknown keys are errors that name the key's path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from epigram.core.config_types import (
    Count,
    Name,
    OpenShare,
    Positive,
    Range,
    Seed,
    Share,
    Strict,
    check_name,
    nearest,
    read_yaml,
    typed,
)
from epigram.core.errors import InputMissingError, ParameterError

Action = Literal["report", "drop", "fail"]


@dataclass(frozen=True, kw_only=True)
class DownloadSettings(Strict):
    """Retries and limits for downloads."""

    tries: Positive = 4
    timeout: Annotated[float, Range(gt=0.0)] = 30.0  # seconds without a byte received
    min_rate: Count = 1_000  # bytes per second, measured over each `timeout` seconds of a transfer


@dataclass(frozen=True, kw_only=True)
class ValidateSettings(Strict):
    """Handling of imperfect rows, and the splits to create if the source has none."""

    on_empty: Action = "fail"
    on_replacement: Action = "report"  # U+FFFD, the result of a wrong decoding; a NUL byte always fails
    on_duplicate: Action = "report"  # the same text and label more than once in a split
    on_conflict: Action = "report"  # the same text with different labels
    on_leak: Action = "report"  # a text of dev or test that is also in train; drop removes it from train
    min_per_class: Positive = 2
    dev: OpenShare = 0.1
    test: OpenShare = 0.1
    split_seed: Seed = 0
    max_train_rows: Annotated[int | None, Range(ge=1)] = None


@dataclass(frozen=True, kw_only=True)
class PosTableSettings(Strict):
    """Attention weights of notional and function words (Transformer-F, Eq. 5)."""

    notional: Share = 1.0
    function: Share = 0.5
    adverb: Literal["notional", "function"] = "notional"


@dataclass(frozen=True, kw_only=True)
class AugmentSettings(Strict):
    """Template of the prompt (prompt text augmentation, PTA)."""

    template: Literal["plain", "complex", "auto"] = "plain"


@dataclass(frozen=True, kw_only=True)
class EncodeSettings(Strict):
    """Vocabulary sizes and maximum length of the encoded texts."""

    min_count: Positive = 1
    max_vocabulary: Positive = 50_000
    wordpiece_vocabulary: Positive = 8_000
    max_length: Positive = 512  # tokens per text


@dataclass(frozen=True, kw_only=True)
class PretrainSettings(Strict):
    """Masked language modelling on the training texts, before the systems of a view are trained (Devlin et al. 2019).

    The sizes are those of the small encoder, from which the systems of the view start.
    """

    texts: str | None = None  # further texts, one per line: a file in data/local
    width: Positive = 128
    depth: Positive = 4
    heads: Positive = 4
    hidden: Positive = 256
    max_length: Positive = 128  # tokens per input, prompt and special tokens included; longer texts are split
    mask_share: OpenShare = 0.15  # share of the words of a text
    epochs: Positive = 20
    batch_size: Positive = 64  # texts
    learning_rate: Annotated[float, Range(gt=0.0)] = 1e-3
    seed: Seed = 0
    threads: Positive = 1  # CPU threads; they affect the result, because they determine the order of the sums


@dataclass(frozen=True, kw_only=True)
class View(Strict):
    """A tokenization, with or without the prompt, from scratch or of a pretrained checkpoint."""

    tokenizer: Literal["token", "wordpiece"] = "token"
    prompt: bool = False
    checkpoint: str | None = None
    characters: bool = False  # tokens are also represented by their characters
    vectors: str | None = None  # a file in data/local with token vectors: .npz, .safetensors, .txt or .vec
    pretrain: PretrainSettings | None = None  # {} enables it with the defaults


@dataclass(frozen=True, kw_only=True)
class System(Strict):
    """A system of a run: a recipe, and this run's changes to it."""

    view: Name
    recipe: str | None = None  # default: the name of the system
    encoder: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PruneSettings(Strict):
    """Dynamic depth control of a trained model (DDCF, Eq. 5)."""

    enabled: bool = True
    threshold: Share | Literal["auto"] = "auto"  # ξ
    tolerance: Share = 0.01  # auto: ξ = best layer's accuracy − tolerance; also the maximum loss of a pruned model
    rule: Literal["equation", "algorithm", "shallowest"] = "equation"  # Eq. 5, Algorithm 1, epigram's own rule
    drop: Literal["last", "worst"] = "last"  # for the paper's two rules; `shallowest` always keeps the first layers
    epochs: Positive = 2  # epochs of fine-tuning after dropping layers


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Strict):
    """Confidence intervals, calibration and speed measurement."""

    resamples: Positive = 2_000
    confidence: OpenShare = 0.95
    bins: Positive = 10
    surest_errors: Count = 20
    timing_texts: Positive = 256


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Strict):
    """Significance level of comparisons."""

    alpha: OpenShare = 0.05


@dataclass(frozen=True, kw_only=True)
class Query(Strict):
    """A database query: the URL, as in data/sources/sql.yaml, and the SELECT that returns the rows."""

    url: str
    query: str


@dataclass(frozen=True, kw_only=True)
class RetrainSettings(Strict):
    """Sources of new rows, the systems to retrain, and the conditions for promoting a challenger."""

    incoming: str = "data/local/incoming"  # a folder
    database: Query | None = None  # queried in addition to the folder
    systems: list[Name] = field(default_factory=list)  # empty: the systems of params.yaml
    alpha: OpenShare = 0.05  # significance level for a better score
    margin: Share = 0.05  # maximum loss of a class's F1


@dataclass(frozen=True, kw_only=True)
class DriftSettings(Strict):
    """Threshold at which new texts count as different from the texts that the champion was trained on."""

    threshold: Annotated[float, Range(gt=0.0)] = 0.2  # population stability index
    window: Positive = 2_000  # number of newest texts


@dataclass(frozen=True, kw_only=True)
class Settings(Strict):
    """All sections of params.yaml."""

    dataset: Name
    seeds: list[Seed]
    views: dict[str, View]
    systems: dict[str, System]
    download: DownloadSettings = field(default_factory=DownloadSettings)
    validate: ValidateSettings = field(default_factory=ValidateSettings)
    pos_table: PosTableSettings = field(default_factory=PosTableSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    train: dict[str, Any] = field(default_factory=dict)  # validated by the training code, with the recipe
    prune: PruneSettings = field(default_factory=PruneSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    compare: CompareSettings = field(default_factory=CompareSettings)
    retrain: RetrainSettings = field(default_factory=RetrainSettings)
    drift: DriftSettings = field(default_factory=DriftSettings)


def read_params(path: Path = Path("params.yaml")) -> dict[str, Any]:
    """Return the content of params.yaml without checks of its values."""
    try:
        values = read_yaml(path)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run from the repository's root") from None
    if not isinstance(values, Mapping):
        was = "empty" if values is None else f"a {type(values).__name__}"
        raise ParameterError(f"{path} is {was}: sections are needed, such as dataset: pocket_zh")
    return dict(values)


def dataset_of(path: Path) -> str:
    """Return the data set that a params.yaml names, without checking the rest of the file. Raises ParameterError."""
    name = read_params(path).get("dataset")
    check_name(f"{path.name}: dataset", name)
    return str(name)


def load(path: Path = Path("params.yaml")) -> Settings:
    """Return all settings, validated. Raises ParameterError for an invalid value."""
    values = read_params(path)
    settings = typed(Settings, values)
    check_names(values)
    if not settings.seeds or len(set(settings.seeds)) < len(settings.seeds):
        raise ParameterError(f"params.yaml: seeds was {settings.seeds}: one number or more are needed, each once")
    for name, view in settings.views.items():
        _one_start(name, view)
    for name, system in settings.systems.items():
        if system.view not in settings.views:
            raise ParameterError(
                f"params.yaml: systems.{name}.view was {system.view!r}: {nearest(system.view, list(settings.views))}"
            )
    return settings


def check_names(values: Mapping[str, Any]) -> None:
    """Check the names in `values`, which DVC inserts into paths and shell commands.

    Raises ParameterError for a name with other characters than NAME_RULE allows.
    """
    sections = {name: section for name in ("views", "systems") if isinstance(section := values.get(name), Mapping)}
    systems = sections.get("systems", {}).items()
    found = [("dataset", values.get("dataset"))]
    found += [(f"a name in {section}", name) for section, each in sections.items() for name in each]
    found += [(f"systems.{name}.view", system.get("view")) for name, system in systems if isinstance(system, Mapping)]
    for where, name in found:
        if isinstance(name, str):
            check_name(f"params.yaml: {where}", name)


def _one_start(name: str, view: View) -> None:
    """Raise ParameterError for a view with more than one source of initial token vectors."""
    given = [key for key in ("checkpoint", "vectors", "pretrain") if getattr(view, key) is not None]
    if len(given) > 1:
        raise ParameterError(
            f"params.yaml: views.{name} has {given[0]} and {given[1]}, and token vectors start from one of them: "
            "remove one, or make a view of each"
        )


def select(keys: tuple[str, ...], *, key: str = "", path: Path = Path("params.yaml")) -> Settings:
    """Return settings with only the sections in `keys`, so that a stage can read only what it declares.

    All settings are validated. `systems.{key}` (or `views.{key}`) selects the one entry named `key`; an unknown name
    raises ParameterError.
    """
    settings = load(path)
    wanted = [name.partition(".") for name in keys]
    for section in set(vars(settings)) - {section for section, _, _ in wanted}:
        object.__delattr__(settings, section)
    for section, dot, _ in wanted:
        values = getattr(settings, section)
        if dot and key not in values:
            raise ParameterError(f"params.yaml: {section} has no {key!r}: {nearest(key, list(values))}")
        if dot:
            object.__setattr__(settings, section, {key: values[key]})
    return settings
