"""Saved ensemble: a folder with the folders of its members, their weights and a temperature.

config.json  labels.json  README.md  manifest.json  members/NAME/ (a saved or an exported model each)

The manifest lists the manifests of the members, which list the members' files.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epigram.core.config_types import has_type, is_name
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import atomic_folder, read_json, sha256, write_json, write_text
from epigram.models import manifest
from epigram.models.manifest import CARD, MEMBERS, PROVENANCE, code_hash, parameters_hash
from epigram.process.display import escape_markdown

Prices = list[list[float]]


def is_valid(config: dict[str, Any], labels: Any) -> bool:
    """Return whether `config` and the `labels` of texts describe an ensemble."""
    values: list[Any] = [config.get(name) for name in ("weights", "temperature", "thresholds")]
    weights, temperature, thresholds = values
    return (
        has_type(labels, list[str])
        and 0 < len(set(labels)) == len(labels)
        and config.get("task") in ("single", "multi")
        and has_type(weights, dict[str, float])
        and all(is_name(name) and weight > 0 for name, weight in weights.items())
        and math.isclose(sum(weights.values()), 1.0, abs_tol=1e-6)
        and has_type(temperature, float)
        and 0 < temperature < math.inf
        and is_thresholds(thresholds, labels)
        and is_prices(config.get("prices"), labels)
    )


def is_thresholds(values: Any, labels: list[str]) -> bool:
    """Return whether `values` are one probability for each label."""
    return has_type(values, list[float]) and len(values) == len(labels) and all(0.0 <= value <= 1.0 for value in values)


def is_prices(values: Any, labels: list[str]) -> bool:
    """Return whether `values` are None, or a price for each pair of labels."""
    return values is None or (
        has_type(values, Prices)
        and [len(row) for row in values] == [len(labels)] * len(labels)
        and all(0.0 <= price < math.inf for row in values for price in row)
    )


FORMAT = 1
FILES = {"config.json", "labels.json", CARD}


@dataclass(frozen=True, kw_only=True)
class SavedEnsemble:
    """Content of the folder of an ensemble; `weights` has the weight of each member's folder, and they sum to 1.

    `thresholds` (C,): a multi-label text gets the labels with p > threshold. `prices` (C, C) of gold and predicted
    labels: a text gets the label with the least expected one.
    """

    folder: Path
    labels: list[str]
    multi: bool
    weights: dict[str, float]
    temperature: float
    thresholds: list[float]
    prices: Prices | None = None

    def member(self, name: str) -> Path:
        """Return the folder of a member."""
        return self.folder / MEMBERS / name


def is_ensemble(folder: Path) -> bool:
    """Return whether `folder` has the folders of members."""
    return (folder / MEMBERS).is_dir()


def require_single_model(folder: Path) -> None:
    """Raise ParameterError if `folder` has an ensemble."""
    if is_ensemble(folder):
        raise ParameterError(
            f"{folder} is an ensemble, which can predict and be exported; for anything else use one of its members, in "
            f"{folder / MEMBERS}"
        )


def save(
    ensemble: SavedEnsemble, write_member: Callable[[str, Path], None], facts: Mapping[str, Any] | None = None
) -> None:
    """Write the folder of the ensemble atomically; `write_member` writes the folder of the member with a name.

    `facts` are further facts of the manifest; their provenance has checksums of what the members do not tell, such as
    the data.
    """
    config = {
        "model_type": "epigram",
        "format": FORMAT,
        "system": "ensemble",
        "task": "multi" if ensemble.multi else "single",
        "weights": ensemble.weights,
        "temperature": ensemble.temperature,
        "thresholds": ensemble.thresholds,
        **({} if ensemble.prices is None else {"prices": ensemble.prices}),
    }
    with atomic_folder(ensemble.folder) as new:
        (new / MEMBERS).mkdir()
        for name in ensemble.weights:
            write_member(name, new / MEMBERS / name)
        write_json(new / "config.json", config)
        write_json(new / "labels.json", ensemble.labels)
        write_text(new / CARD, _card(ensemble))
        members = {name: sha256(new / MEMBERS / name / manifest.MANIFEST) for name in ensemble.weights}
        own = {"code": code_hash(), "weights": parameters_hash(members=members, **config)}
        known = facts or {}
        manifest.write(new, {"system": "ensemble", **known, PROVENANCE: {**known.get(PROVENANCE, {}), **own}})


def copy_members(folders: Mapping[str, Path]) -> Callable[[str, Path], None]:
    """Return the function that copies the member with a name from its folder."""

    def copy(name: str, to: Path) -> None:
        shutil.copytree(folders[name], to)

    return copy


def load(folder: Path) -> SavedEnsemble:
    """Read the folder of an ensemble, whose files must be unchanged; a member's files are verified when it is loaded.

    Raises InputMissingError for a missing file, DataError for a changed one and for invalid values.
    """
    listed = manifest.verify_files(folder)
    config, labels = read_json(folder / "config.json"), read_json(folder / "labels.json")
    if not isinstance(config, dict) or config.get("format") != FORMAT or not is_valid(config, labels):
        raise DataError(f"{folder}/config.json does not describe an ensemble of this version; restore the folder")
    weights = {str(name): float(weight) for name, weight in config["weights"].items()}
    if listed != FILES | {manifest.member_manifest(name) for name in weights}:
        raise DataError(f"{folder}/{manifest.MANIFEST} does not list the members of the ensemble; restore the folder")
    return SavedEnsemble(
        folder=folder,
        labels=labels,
        multi=config["task"] == "multi",
        weights=weights,
        temperature=float(config["temperature"]),
        thresholds=config["thresholds"],
        prices=config.get("prices"),
    )


def _card(ensemble: SavedEnsemble) -> str:
    members = "\n".join(f"* {escape_markdown(name)}: {weight:.2f}" for name, weight in ensemble.weights.items())
    return f"""# ensemble

Weighted mean of the probabilities of {len(ensemble.weights)} models (Caruana et al., 2004), with the temperature
{ensemble.temperature:.3f}. Each member is a model of its own, in `{MEMBERS}`.

{members}

## Use

    epigram predict . "a text"
"""
