"""Saved model: a folder with config, weights, tokenizer, labels, card and manifest, without pickle.

config.json  model.safetensors  tokenizer.json  labels.json  card.md  history.json  manifest.json

The manifest lists all other files; a folder with an unlisted file is refused. An exported model has model.onnx instead
of model.safetensors, and no history. An exported linear SVM also has ngrams.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import nn

from epigram.core.config_types import has_type, shown
from epigram.core.display import escape_markdown
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import atomic_folder, read_json, write_json, write_tensors, write_text
from epigram.core.memory_limit import is_near_limit
from epigram.models import manifest, provenance
from epigram.models.classifier import Classifier, parameters
from epigram.models.recipe import Recipe, settings_of
from epigram.models.sizes import check_numbers, check_sizes
from epigram.nn.layers.types import DataSpec

FORMAT = 1
CHECKED = ("config.json", "model.safetensors", "tokenizer.json", "labels.json")
GRAPH = "model.onnx"
NGRAMS = "ngrams.json"
HISTORY = "history.json"
DOCUMENTS = {"card.md", HISTORY}  # for readers; not needed to load a model
EXPORTED = {GRAPH, *CHECKED} - {"model.safetensors"}
WHOLE = (set(CHECKED), EXPORTED, {NGRAMS, *EXPORTED})  # files of a model, an exported model, an exported SVM
KINDS = {
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
}  # allowed dtypes of weights
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, MemoryError)


@dataclass(frozen=True, kw_only=True)
class TextTemplate:
    """Input format of a model: the tokens around each text, the maximum length and the vocabulary."""

    language: str
    max_length: int
    prefix_ids: list[int]
    suffix_ids: list[int]
    pad_id: int
    unk_id: int
    mask_id: int | None
    vocabulary: int
    characters: str = ""  # all characters of tokens, for models that read characters
    token_labels: list[str] = field(default_factory=list)  # the default label first
    plain_class: int = 0  # class with the smallest share of non-default token labels


def spelling_size(characters: str) -> int:
    """Return the number of character ids, those for none and unknown included; 0 if tokens have no characters."""
    return len(characters) + 2 if characters else 0


@dataclass(frozen=True)
class Saved:
    """Loaded model with everything that it needs to read texts."""

    folder: Path
    system: str
    model: Any
    labels: list[str]
    frame: TextTemplate
    thresholds: list[float]  # (C,): a multi-label text gets the labels with p > threshold


def save(
    folder: Path,
    model: nn.Module,
    *,
    recipe: Recipe,
    frame: TextTemplate,
    labels: list[str],
    tokenizer: Path,
    facts: dict[str, Any],
    thresholds: list[float] | None = None,
    history: list[dict[str, Any]] | None = None,
) -> None:
    """Write the model folder atomically; card and manifest also get `facts` (data hash, seed, dev score, ...).

    `thresholds` (C,) are those tuned on dev if a text may have several labels. `history` has one row per evaluation.
    """
    config = {
        "model_type": "epigram",
        "format": FORMAT,
        "system": recipe.name,
        "task": "multi" if getattr(model, "multi", False) else "single",
        "about": recipe.about,
        "paper": recipe.paper,
        "parts": _parts(model),
        "frame": asdict(frame),
        **({} if thresholds is None else {"thresholds": thresholds}),
    }
    with atomic_folder(folder) as new:
        write_json(new / "config.json", config)
        write_json(new / "labels.json", labels)
        shutil.copyfile(tokenizer, new / "tokenizer.json")
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        write_tensors(new / "model.safetensors", state)
        write_text(new / "card.md", card(recipe, model, frame, labels, facts))
        if history is not None:
            write_json(new / HISTORY, history)
        manifest.write(new, {**facts, provenance.PROVENANCE: provenance.of_saved(new, facts)})


def save_again(
    folder: Path, saved: Saved, model: nn.Module, facts: dict[str, Any], thresholds: list[float] | None = None
) -> None:
    """Write a changed `model`, such as a pruned one, and its `thresholds`; the rest is that of `saved`."""
    config, history = read_json(saved.folder / "config.json"), saved.folder / HISTORY
    recipe = Recipe(name=saved.system, about=config["about"], paper=config["paper"], view="", **config["parts"])
    save(
        folder,
        model,
        recipe=recipe,
        frame=saved.frame,
        labels=saved.labels,
        tokenizer=saved.folder / "tokenizer.json",
        facts={**manifest.facts_of(saved.folder), **facts},
        thresholds=thresholds,
        history=read_json(history) if history.exists() else None,
    )


def _parts(model: nn.Module) -> dict[str, Any]:
    if not isinstance(model, Classifier):  # one module is encoder and head
        return {"encoder": settings_of(model.config), "head": {"kind": "linear"}}
    return {
        "encoder": settings_of(model.encoder.settings),
        "head": settings_of(model.head.config),
    }


def load(folder: Path, graph: Callable[..., Any] | None = None) -> Saved:
    """Load a model folder. Weights, vocabulary and labels must be those that it was saved with.

    `graph` opens the ONNX graph of an exported model; without `graph`, loading an exported model raises ParameterError.
    Raises InputMissingError for a missing file, DataError for a file that was changed or that does not fit this
    version, and TryAgainError if the folder changes while it is read.
    """
    with manifest.unchanged(folder):
        return _loaded(folder, graph)


def _loaded(folder: Path, graph: Callable[..., Any] | None) -> Saved:
    exported = GRAPH in _check(folder)
    if exported and graph is None:
        raise ParameterError(f"{folder} is an exported model, good for answers only: name the one it was exported from")
    config, labels = read_json(folder / "config.json"), read_json(folder / "labels.json")
    if not isinstance(config, dict) or config.get("model_type") != "epigram" or config.get("format") != FORMAT:
        raise DataError(f"{folder}/config.json is not of this version's format ({FORMAT}): train the model again")
    if not has_type(labels, list[str]) or not labels or len(set(labels)) < len(labels):
        raise DataError(f"{folder}/labels.json is not a list of labels: restore the folder")
    try:
        frame, multi = _frame(config["frame"]), config["task"] == "multi"
        thresholds = config.get("thresholds", [0.5] * len(labels))
        if (
            not has_type(config["system"], str)
            or not has_type(thresholds, list[float])
            or len(thresholds) != len(labels)
        ):
            raise TypeError("a name, or a threshold a label, is missing")
        model = graph(folder / GRAPH, multi=multi) if exported and graph else _built(folder, config, frame, labels)
        return Saved(folder, config["system"], model, labels, frame, thresholds)
    except (*UNFIT, ParameterError) as error:  # saved by another version, or with false sizes
        if is_near_limit():
            raise
        reason = shown(str(error).partition("\n")[0])
        raise DataError(f"{folder} does not fit this version of epigram ({reason}): train the model again") from None


def _frame(values: Any) -> TextTemplate:
    """Return the frame in config.json. Raises TypeError or ValueError for one that no model can have."""
    for name, hint in get_type_hints(TextTemplate).items():
        if name in values and not has_type(values[name], hint):
            raise TypeError(f"frame.{name} is not {hint}")
    frame = TextTemplate(**values)
    check_numbers([frame.max_length, frame.vocabulary])
    ids = [frame.pad_id, frame.unk_id, frame.mask_id or 0, *frame.prefix_ids, *frame.suffix_ids]
    if min(ids) < 0 or max(ids) >= frame.vocabulary:
        raise ValueError("frame has ids beyond its vocabulary")
    if frame.max_length <= len(frame.prefix_ids) + len(frame.suffix_ids):
        raise ValueError("frame.max_length leaves no room for a text")
    return frame


def _check(folder: Path) -> set[str]:
    """Return the names of a model's files; all must exist and be unchanged."""
    names = manifest.verify(folder)
    if names - DOCUMENTS not in WHOLE:
        raise DataError(f"{folder}/manifest.json lists other files than a model has: restore the folder")
    return names


def _built(folder: Path, config: dict[str, Any], frame: TextTemplate, labels: list[str]) -> nn.Module:
    """Return the model that `config` describes, with its weights."""
    recipe = Recipe(name=config["system"], about="", paper="", view="", **config["parts"])
    context = DataSpec(
        vocabulary=frame.vocabulary,
        classes=len(labels),
        max_length=frame.max_length,
        labels=tuple(labels),
        multi=config["task"] == "multi",
        token_labels=tuple(frame.token_labels),
        plain_class=frame.plain_class,
        characters=spelling_size(frame.characters),
        unk_id=frame.unk_id,
        mask_id=frame.mask_id,
        prefix_ids=tuple(frame.prefix_ids),
    )

    def build() -> nn.Module:
        pos_weight = torch.ones(frame.vocabulary)  # placeholder: the saved weights replace it
        return recipe.build(replace(context, pos_weight=pos_weight), "config.json")

    weights = _state(folder / "model.safetensors")
    if recipe.fitting == "gradient":  # others take their sizes from the weights, not from the config
        check_sizes(weights, config["parts"], build)
    model = build()
    model.load_state_dict(weights)
    return model.eval()


def _state(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise DataError(f"{path} is not a whole safetensors file ({shown(str(error))}): restore the folder") from None
    if other := {tensor.dtype for tensor in weights.values()} - KINDS:
        raise DataError(f"{path} holds {shown(str(other.pop()))}, in which no weights are saved: restore the folder")
    return weights


def card(recipe: Recipe, model: nn.Module, frame: TextTemplate, labels: list[str], facts: dict[str, Any]) -> str:
    """Return the model card: what the model is, what it was trained on and how to use it."""
    score = f"dev {'micro-F1 at 0.5' if getattr(model, 'multi', False) else 'accuracy'} of this seed in training"
    named = {score if name == "dev_accuracy" else name: value for name, value in facts.items()}
    shown = "\n".join(
        f"* {name}: {escape_markdown(str(value))}" for name, value in named.items() if not isinstance(value, dict)
    )
    return f"""# {escape_markdown(recipe.name)}

{recipe.about} ({recipe.paper}).

* language: {frame.language}
* labels: {escape_markdown(", ".join(labels))}
* parameters: {parameters(model):,}
* reads up to {frame.max_length} tokens of a text
{shown}

## Use

    epigram predict . "a text"

The folder holds all that is needed: weights (safetensors), tokenizer, labels, settings.
"""
