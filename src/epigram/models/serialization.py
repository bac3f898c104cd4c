"""Saved model: a folder with config, weights, tokenizer, labels, card and manifest, without pickle.

config.json  model.safetensors  tokenizer.json  labels.json  README.md  history.json  manifest.json

A model that a cross-validation chose also has out_of_fold.safetensors, its predictions for the training texts.
A fit with `neighbors` adds training_texts.jsonl and, if the model has an encoder, training_vectors.safetensors.

The manifest lists all other files; a folder with an unlisted file is refused. An exported model has model.onnx, or
model.xml and model.bin of OpenVINO, instead of model.safetensors, and no history. An exported linear SVM also has
ngrams.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from epigram.core.config_types import has_type, shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import atomic_folder, read_json, write_json, write_tensors, write_text
from epigram.core.pairs import PAIR
from epigram.models import manifest
from epigram.models.classifier import NeuralClassifier
from epigram.models.ensemble import Prices, is_prices, is_thresholds, require_single_model
from epigram.models.manifest import CARD, NEIGHBORS
from epigram.models.model_card import model_card
from epigram.models.recipe import Recipe, settings_of
from epigram.models.sizes import check_sizes
from epigram.models.text_template import TextTemplate, character_count, read_template
from epigram.nn.layers.types import DataSpec

FORMAT = 1
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "labels.json")
GRAPH = "model.onnx"
NETWORK, NETWORK_WEIGHTS = "model.xml", "model.bin"  # OpenVINO derives the second name
NGRAMS = "ngrams.json"
HISTORY = "history.json"
OUT_OF_FOLD = "out_of_fold.safetensors"
DOCUMENTS = {CARD, HISTORY, OUT_OF_FOLD, *NEIGHBORS}  # not needed to load a model
COPIED_FILES = tuple(name for name in MODEL_FILES if name != "model.safetensors")  # exported models have them
EXPORTED_FILES = ({GRAPH, *COPIED_FILES}, {NETWORK, NETWORK_WEIGHTS, *COPIED_FILES})
# files of a model, an exported model, an exported SVM
FILE_SETS = (set(MODEL_FILES), *EXPORTED_FILES, *({NGRAMS, *files} for files in EXPORTED_FILES))
DTYPES = {
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.uint8,
}  # allowed dtypes of weights
LOAD_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, MemoryError)


@dataclass(frozen=True)
class Saved:
    """Loaded model with everything that it needs to read texts."""

    folder: Path
    system: str
    model: Any
    labels: list[str]
    frame: TextTemplate
    thresholds: list[float]  # (C,): a multi-label text gets the labels with p > threshold
    prices: Prices | None = None  # (C, C) of gold and predicted labels; the label has the least expected one


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
    out_of_fold: NDArray[np.float32] | None = None,
    prices: Prices | None = None,
) -> None:
    """Write the model folder atomically; card and manifest also get `facts` (data hash, seed, dev score, ...).

    `thresholds` (C,) are tuned on dev if a text may have several labels. `history` has one row per evaluation.
    `out_of_fold` are the logits (N, C) of a cross-validation for the training texts. `prices`: see `Saved`.
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
        **({} if prices is None else {"prices": prices}),
    }
    card = model_card(recipe, model, labels, facts, language=frame.language, max_length=frame.max_length)
    with atomic_folder(folder) as new:
        write_json(new / "config.json", config)
        write_json(new / "labels.json", labels)
        shutil.copyfile(tokenizer, new / "tokenizer.json")
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        write_tensors(new / "model.safetensors", state)
        write_text(new / CARD, card)
        if history is not None:
            write_json(new / HISTORY, history)
        if out_of_fold is not None:
            write_tensors(new / OUT_OF_FOLD, {"logits": torch.from_numpy(out_of_fold)})
        manifest.write(new, {**facts, manifest.PROVENANCE: manifest.of_saved(new, facts)})


def save_changed(
    folder: Path, saved: Saved, model: nn.Module, facts: dict[str, Any], thresholds: list[float] | None = None
) -> None:
    """Write a changed `model`, such as a pruned one, and its `thresholds`; copy everything else from `saved`."""
    config, history = read_json(saved.folder / "config.json"), saved.folder / HISTORY
    recipe = Recipe(name=saved.system, about=config["about"], paper=config["paper"], view="", **config["parts"])
    save(
        folder,
        model,
        recipe=recipe,
        frame=saved.frame,
        labels=saved.labels,
        tokenizer=saved.folder / "tokenizer.json",
        facts={**manifest.read_facts(saved.folder), **facts},
        thresholds=thresholds,
        history=read_json(history) if history.exists() else None,
        out_of_fold=read_out_of_fold(saved.folder) if (saved.folder / OUT_OF_FOLD).exists() else None,
        prices=saved.prices,
    )


def _parts(model: nn.Module) -> dict[str, Any]:
    if not isinstance(model, NeuralClassifier):
        return {"model": settings_of(model.config)}
    return {
        "encoder": settings_of(model.encoder.settings),
        "head": settings_of(model.head.config),
    }


def read_out_of_fold(folder: Path) -> NDArray[np.float32]:
    """Return the logits (N, C) of a cross-validation for the training texts. Raises DataError if there are none."""
    known = read_tensors(folder / OUT_OF_FOLD) if (folder / OUT_OF_FOLD).is_file() else {}
    if "logits" not in known:
        raise DataError(f"{folder}/{OUT_OF_FOLD} is missing or has no logits, but train has folds; run dvc repro")
    return np.asarray(known["logits"].numpy(), dtype=np.float32)


def load(folder: Path, graph: Callable[..., Any] | None = None) -> Saved:
    """Load a model folder. Weights, vocabulary and labels must be unchanged since it was saved.

    `graph` opens the graph of an exported model; without `graph`, loading an exported model raises ParameterError.
    Raises InputMissingError for a missing file, DataError for a file that was changed or that does not fit this
    version, and TryAgainError if the folder changes while it is read.
    """
    with manifest.require_unchanged(folder):
        return _load(folder, graph)


def _load(folder: Path, graph: Callable[..., Any] | None) -> Saved:
    exported = next(iter(_check(folder) & {GRAPH, NETWORK}), None)
    if exported and graph is None:
        raise ParameterError(
            f"{folder} is an exported model, which can only predict; use the model that it was exported from"
        )
    config, labels = read_json(folder / "config.json"), read_json(folder / "labels.json")
    if not isinstance(config, dict) or config.get("model_type") != "epigram" or config.get("format") != FORMAT:
        raise DataError(
            f"{folder}/config.json does not have format {FORMAT} of this version of epigram; train the model again"
        )
    if not has_type(labels, list[str]) or not labels or len(set(labels)) < len(labels):
        raise DataError(f"{folder}/labels.json is not a list of distinct labels; restore the model's folder")
    try:
        frame, multi = read_template(config["frame"]), config["task"] == "multi"
        thresholds = config.get("thresholds", [0.5] * len(labels))
        prices = config.get("prices")
        known = has_type(config["system"], str) and config["task"] in ("single", "multi")
        if not known or not is_thresholds(thresholds, labels) or not is_prices(prices, labels):
            raise TypeError("system, task, thresholds or prices: missing or invalid")
        model = graph(folder / exported, multi=multi) if exported and graph else _build(folder, config, frame, labels)
        return Saved(folder, config["system"], model, labels, frame, thresholds, prices)
    except (*LOAD_ERRORS, ParameterError) as error:  # saved by another version, or with false sizes
        reason = shown(str(error).partition("\n")[0])
        raise DataError(
            f"{folder} cannot be loaded by this version of epigram ({reason}); train the model again"
        ) from None


def _check(folder: Path) -> set[str]:
    """Return the names of a model's files; all must exist and be unchanged."""
    names = manifest.verify(folder)
    require_single_model(folder)
    if names - DOCUMENTS not in FILE_SETS:
        raise DataError(f"{folder}/manifest.json does not list the files of a model; restore the model's folder")
    return names


def _build(folder: Path, config: dict[str, Any], frame: TextTemplate, labels: list[str]) -> nn.Module:
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
        characters=character_count(frame.characters),
        unk_id=frame.unk_id,
        mask_id=frame.mask_id,
        prefix_ids=tuple(frame.prefix_ids),
        suffix_ids=tuple(frame.suffix_ids),
        pairs=frame.join == PAIR,
    )

    def build() -> nn.Module:
        pos_weight = torch.ones(frame.vocabulary)  # placeholder: the saved weights replace it
        return recipe.build(replace(context, pos_weight=pos_weight), "config.json")

    weights = read_tensors(folder / "model.safetensors")
    if recipe.by_gradient:  # others take their sizes from the weights, not from the config
        check_sizes(weights, config["parts"], build)
    model = build()
    model.load_state_dict(weights)
    return model.eval()


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file. Raises DataError for a damaged one, other types of numbers, NaN and infinity."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise DataError(
            f"{path} cannot be read as safetensors ({shown(str(error))}); restore the model's folder"
        ) from None
    if other := {tensor.dtype for tensor in weights.values()} - DTYPES:
        raise DataError(
            f"{path} has weights of the unsupported type {shown(str(other.pop()))}; restore the model's folder"
        )
    if broken := [name for name, tensor in weights.items() if not tensor.isfinite().all()]:
        raise DataError(f"{path}: {shown(broken[0])} is NaN or infinite; restore the model's folder, or train it again")
    return weights
