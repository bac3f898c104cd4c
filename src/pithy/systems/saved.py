"""A saved model: a folder with config, weights, tokenizer, labels, card and manifest. No pickle anywhere.

config.json  model.safetensors  tokenizer.json  labels.json  card.md  history.json  manifest.json

The manifest lists all other files; a folder with a further file is refused. An exported model has model.onnx in place
of model.safetensors and no history; an exported linear SVM has ngrams.json too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import nn

from pithy.display import escape_markdown
from pithy.errors import DataError, ParameterError
from pithy.files import atomic_folder, read_json, write_json, write_tensors, write_text
from pithy.layers.types import Context
from pithy.memory import used_up
from pithy.systems import manifest, provenance
from pithy.systems.model import Classifier, parameters
from pithy.systems.recipe import ENCODERS, HEADS, Recipe, settings_of
from pithy.systems.sizes import check_numbers, check_sizes
from pithy.values import fits, shown

FORMAT = 1
CHECKED = ("config.json", "model.safetensors", "tokenizer.json", "labels.json")
GRAPH = "model.onnx"
NGRAMS = "ngrams.json"
HISTORY = "history.json"
DOCUMENTS = {"card.md", HISTORY}  # for people: no model needs them
EXPORTED = {GRAPH, *CHECKED} - {"model.safetensors"}
WHOLE = (set(CHECKED), EXPORTED, {NGRAMS, *EXPORTED})  # the files of a model, of an exported one, of an exported SVM
KINDS = {
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
}  # of weights
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, MemoryError)


@dataclass(frozen=True, kw_only=True)
class TextFrame:
    """How a model reads texts: what stands around their own tokens, how much fits, what their tokens are."""

    language: str
    max_length: int
    prefix_ids: list[int]
    suffix_ids: list[int]
    pad_id: int
    unk_id: int
    mask_id: int | None
    vocabulary: int
    characters: str = ""  # that spell the tokens, where the model reads them
    token_labels: list[str] = field(default_factory=list)  # the default one first
    plain_class: int = 0  # the class of texts without another


def spelling_size(characters: str) -> int:
    """Ids that spell tokens by `characters`, none and unknown included; 0 where tokens are not spelled."""
    return len(characters) + 2 if characters else 0


@dataclass(frozen=True)
class Saved:
    """A loaded model with what it needs to read text."""

    folder: Path
    system: str
    model: Any
    labels: list[str]
    frame: TextFrame
    thresholds: list[float]  # (C,): a text that may have several labels has those more probable than theirs


def save(
    folder: Path,
    model: nn.Module,
    *,
    recipe: Recipe,
    frame: TextFrame,
    labels: list[str],
    tokenizer: Path,
    facts: dict[str, Any],
    thresholds: list[float] | None = None,
    history: list[dict[str, Any]] | None = None,
) -> None:
    """Write the model's folder, whole or not at all; `facts` (data hash, seed, dev score …) go to card and manifest.

    `thresholds` (C,) are those tuned on dev where a text may have several labels. `history` has a row for each epoch.
    """
    config = {
        "model_type": "pithy",
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
    """Write a changed `model` (a pruned one) and its `thresholds` with all else of the folder that it came from."""
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
    if not isinstance(model, Classifier):  # encoder and head in one
        return {"encoder": settings_of(ENCODERS, model.config), "head": {"kind": "linear"}}
    return {
        "encoder": settings_of(ENCODERS, model.encoder.settings),
        "head": settings_of(HEADS, model.head.config),
    }


def load(folder: Path, graph: Callable[..., Any] | None = None) -> Saved:
    """Read a model's folder; refuses one whose weights, vocabulary or labels are not those it was saved with.

    `graph` opens the graph of an exported model, which is refused without.
    Raises InputMissingError for what is not there, DataError for what is not as it was saved, TryAgainError for what
    changes meanwhile.
    """
    with manifest.unchanged(folder):
        return _loaded(folder, graph)


def _loaded(folder: Path, graph: Callable[..., Any] | None) -> Saved:
    exported = GRAPH in _check(folder)
    if exported and graph is None:
        raise ParameterError(f"{folder} is an exported model, good for answers only: name the one it was exported from")
    config, labels = read_json(folder / "config.json"), read_json(folder / "labels.json")
    if not isinstance(config, dict) or config.get("model_type") != "pithy" or config.get("format") != FORMAT:
        raise DataError(f"{folder}/config.json is not of this version's format ({FORMAT}): train the model again")
    if not fits(labels, list[str]) or not labels or len(set(labels)) < len(labels):
        raise DataError(f"{folder}/labels.json is not a list of labels: restore the folder")
    try:
        frame, multi = _frame(config["frame"]), config["task"] == "multi"
        thresholds = config.get("thresholds", [0.5] * len(labels))
        if not fits(config["system"], str) or not fits(thresholds, list[float]) or len(thresholds) != len(labels):
            raise TypeError("a name, or a threshold a label, is missing")
        model = graph(folder / GRAPH, multi=multi) if exported and graph else _built(folder, config, frame, labels)
        return Saved(folder, config["system"], model, labels, frame, thresholds)
    except (*UNFIT, ParameterError) as error:  # saved when a part had other settings, or with sizes that lie
        if used_up():
            raise
        reason = shown(str(error).partition("\n")[0])
        raise DataError(f"{folder} does not fit this version of pithy ({reason}): train the model again") from None


def _frame(values: Any) -> TextFrame:
    """The frame that config.json holds. Raises TypeError or ValueError for one that no model can have."""
    for name, hint in get_type_hints(TextFrame).items():
        if name in values and not fits(values[name], hint):
            raise TypeError(f"frame.{name} is not {hint}")
    frame = TextFrame(**values)
    check_numbers([frame.max_length, frame.vocabulary])
    ids = [frame.pad_id, frame.unk_id, frame.mask_id or 0, *frame.prefix_ids, *frame.suffix_ids]
    if min(ids) < 0 or max(ids) >= frame.vocabulary:
        raise ValueError("frame has ids beyond its vocabulary")
    if frame.max_length <= len(frame.prefix_ids) + len(frame.suffix_ids):
        raise ValueError("frame.max_length leaves no room for a text")
    return frame


def _check(folder: Path) -> set[str]:
    """The files of a model's folder, which must all be there, unchanged."""
    names = manifest.verify(folder)
    if names - DOCUMENTS not in WHOLE:
        raise DataError(f"{folder}/manifest.json lists other files than a model has: restore the folder")
    return names


def _built(folder: Path, config: dict[str, Any], frame: TextFrame, labels: list[str]) -> nn.Module:
    """The model that `config` describes, with its weights."""
    recipe = Recipe(name=config["system"], about="", paper="", view="", **config["parts"])
    context = Context(
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
        pos_weight = torch.ones(frame.vocabulary)  # the saved weights take its place
        return recipe.build(replace(context, pos_weight=pos_weight), "config.json")

    weights = _state(folder / "model.safetensors")
    if recipe.fitting == "gradient":  # others have the sizes of their weights, whatever their config says
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


def card(recipe: Recipe, model: nn.Module, frame: TextFrame, labels: list[str], facts: dict[str, Any]) -> str:
    """The model's card: what it is, what it was trained on, how to use it."""
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

    pithy predict . "a text"

The folder holds all that is needed: weights (safetensors), tokenizer, labels, settings.
"""
