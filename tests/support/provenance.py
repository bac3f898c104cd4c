"""Small trained models, and their manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epigram.models.recipe import Recipe
from epigram.training.config import configure
from epigram.training.distributed.resources import resolve_threads
from tests.support.text_samples import encoded_in
from tests.support.trained import train_seed

TEXTS = [(f"{word} film {n}", label) for n in range(8) for word, label in (("good", "pos"), ("bad", "neg"))]


def view_of(folder: Path, pos: Path, texts: list[tuple[str, str]]) -> Any:
    return encoded_in(folder, pos, {"train": texts, "dev": texts[:8], "test": texts[:4]}, "en")


def trained(view: Any, out: Path, *, seed: int = 0, **train: Any) -> dict[str, Any]:
    """Train a small model on `view`, save it in the folder `out` and return its manifest."""
    encoder = {"kind": "transformer", "width": 8, "heads": 2, "hidden": 8, "depth": 2}
    recipe = Recipe(name="mine", about="", paper="", view="token", encoder=encoder, train={"epochs": 1, **train})
    train_seed("mine", recipe, resolve_threads(configure("mine", recipe), recipe, None), view, None, seed, out)
    return manifest(out)


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return content
