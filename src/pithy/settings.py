"""params.yaml, typed: one dataclass a section, unknown keys refused with their path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pithy.errors import InputMissingError, ParameterError
from pithy.values import (
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

Action = Literal["report", "drop", "fail"]


@dataclass(frozen=True, kw_only=True)
class DownloadSettings(Strict):
    """How hard to try to reach a source."""

    tries: Positive = 4
    timeout: Annotated[float, Range(gt=0.0)] = 30.0  # seconds without a byte
    min_rate: Count = 1_000  # bytes a second, in each `timeout` seconds of a transfer


@dataclass(frozen=True, kw_only=True)
class ValidateSettings(Strict):
    """What to do with imperfect rows, and how to cut splits that the source does not have."""

    on_empty: Action = "fail"
    on_replacement: Action = "report"  # U+FFFD, which a wrong decoding leaves behind; a NUL byte always fails
    on_duplicate: Action = "report"  # the same text and label twice in a split
    on_conflict: Action = "report"  # the same text with two labels
    on_leak: Action = "report"  # a text of dev or test that is also in train; drop removes it from train
    min_per_class: Positive = 2
    dev: OpenShare = 0.1
    test: OpenShare = 0.1
    split_seed: Seed = 0
    max_train_rows: Annotated[int | None, Range(ge=1)] = None


@dataclass(frozen=True, kw_only=True)
class PosTableSettings(Strict):
    """Weights of notional and function words (Transformer-F, Eq. 5)."""

    notional: Share = 1.0
    function: Share = 0.5
    adverb: Literal["notional", "function"] = "notional"


@dataclass(frozen=True, kw_only=True)
class AugmentSettings(Strict):
    """The prompt template (prompt text augmentation, PTA)."""

    template: Literal["plain", "complex", "auto"] = "plain"


@dataclass(frozen=True, kw_only=True)
class EncodeSettings(Strict):
    """Vocabulary and length of the encoded arrays."""

    min_count: Positive = 1
    max_vocabulary: Positive = 50_000
    wordpiece_vocabulary: Positive = 8_000
    max_length: Positive = 512  # tokens kept of a text


@dataclass(frozen=True, kw_only=True)
class PretrainSettings(Strict):
    """Masked language modelling on the training texts, before any system of a view is trained (Devlin et al. 2019).

    The sizes are those of the small encoder, which the view's systems then take over.
    """

    texts: str | None = None  # further texts, one a line: a file in data/local
    width: Positive = 128
    depth: Positive = 4
    heads: Positive = 4
    hidden: Positive = 256
    max_length: Positive = 128  # tokens read at once, prompt and special tokens included; longer texts are cut up
    mask_share: OpenShare = 0.15  # of a text's words
    epochs: Positive = 20
    batch_size: Positive = 64  # texts
    learning_rate: Annotated[float, Range(gt=0.0)] = 1e-3
    seed: Seed = 0
    threads: Positive = 1  # of the CPU; part of the result, since it orders the sums


@dataclass(frozen=True, kw_only=True)
class View(Strict):
    """A tokenization, with or without the prompt, of a from-scratch vocabulary or of a checkpoint's."""

    tokenizer: Literal["token", "wordpiece"] = "token"
    prompt: bool = False
    checkpoint: str | None = None
    characters: bool = False  # tokens are also spelled
    vectors: str | None = None  # a file below data/local with vectors of the tokens: .npz, .safetensors, .txt or .vec
    pretrain: PretrainSettings | None = None  # {} turns it on


@dataclass(frozen=True, kw_only=True)
class System(Strict):
    """One system of a run: a recipe and what this run changes of it."""

    view: Name
    recipe: str | None = None  # the system's own name where absent
    encoder: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PruneSettings(Strict):
    """Dynamic depth control (DDCF, Eq. 5) of a trained model."""

    enabled: bool = True
    threshold: Share | Literal["auto"] = "auto"  # ξ
    tolerance: Share = 0.01  # auto: ξ = best layer's accuracy − tolerance; also what a pruned model may lose
    rule: Literal["equation", "algorithm", "shallowest"] = "equation"  # Eq. 5, Algorithm 1, ours
    drop: Literal["last", "worst"] = "last"  # by the paper's rules; the shallowest keeps the first layers
    epochs: Positive = 2  # fine-tuning after a drop


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Strict):
    """Intervals, calibration and speed."""

    resamples: Positive = 2_000
    confidence: OpenShare = 0.95
    bins: Positive = 10
    surest_errors: Count = 20
    timing_texts: Positive = 256


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Strict):
    """When a difference counts."""

    alpha: OpenShare = 0.05


@dataclass(frozen=True, kw_only=True)
class Query(Strict):
    """Rows of a database: its address, as in data/sources/sql.yaml, and the SELECT that gives them."""

    url: str
    query: str


@dataclass(frozen=True, kw_only=True)
class RetrainSettings(Strict):
    """Where new rows arrive, which systems are trained on them, and what a challenger must be to be promoted."""

    incoming: str = "data/local/incoming"  # a folder
    database: Query | None = None  # that is asked as well
    systems: list[Name] = field(default_factory=list)  # those of params.yaml where empty
    alpha: OpenShare = 0.05  # above it, a better score counts as chance
    margin: Share = 0.05  # what the F1 of a class may lose


@dataclass(frozen=True, kw_only=True)
class DriftSettings(Strict):
    """When new texts differ from those that the champion knows."""

    threshold: Annotated[float, Range(gt=0.0)] = 0.2  # of the population stability index
    window: Positive = 2_000  # texts, the newest


@dataclass(frozen=True, kw_only=True)
class Settings(Strict):
    """All of params.yaml."""

    dataset: Name
    seeds: list[Seed]
    views: dict[str, View]
    systems: dict[str, System]
    download: DownloadSettings = field(default_factory=DownloadSettings)
    validate: ValidateSettings = field(default_factory=ValidateSettings)
    pos_table: PosTableSettings = field(default_factory=PosTableSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    train: dict[str, Any] = field(default_factory=dict)  # typed by the training core, after the recipe's defaults
    prune: PruneSettings = field(default_factory=PruneSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    compare: CompareSettings = field(default_factory=CompareSettings)
    retrain: RetrainSettings = field(default_factory=RetrainSettings)
    drift: DriftSettings = field(default_factory=DriftSettings)


def read_params(path: Path = Path("params.yaml")) -> dict[str, Any]:
    """params.yaml as it stands, unchecked."""
    try:
        values = read_yaml(path)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run from the repository's root") from None
    if not isinstance(values, Mapping):
        was = "empty" if values is None else f"a {type(values).__name__}"
        raise ParameterError(f"{path} is {was}: sections are needed, such as dataset: pocket_zh")
    return dict(values)


def dataset_of(path: Path) -> str:
    """Return the data set that a params.yaml names; the rest of the file is not checked. Raises ParameterError."""
    name = read_params(path).get("dataset")
    check_name(f"{path.name}: dataset", name)
    return str(name)


def load(path: Path = Path("params.yaml")) -> Settings:
    """All settings, checked."""
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
    """Refuse names that are more than names: DVC puts them into paths and into a shell's command lines.

    Raises ParameterError.
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
    """Refuse a view that says twice what its systems' token vectors start from."""
    given = [key for key in ("checkpoint", "vectors", "pretrain") if getattr(view, key) is not None]
    if len(given) > 1:
        raise ParameterError(
            f"params.yaml: views.{name} has {given[0]} and {given[1]}, and token vectors start from one of them: "
            "remove one, or make a view of each"
        )


def select(keys: tuple[str, ...], *, key: str = "", path: Path = Path("params.yaml")) -> Settings:
    """All settings are checked, but only `keys` can be read: what a stage declares is what it gets.

    `systems.{key}` stands for the one system (or view) named `key`; an unknown one is a ParameterError.
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
