"""A small corpus for pretraining in which words occur in pairs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from epigram.text.pos.pos_table import build, save
from epigram.text.settings import AugmentSettings, EncodeSettings, PosTableSettings, ViewSettings
from epigram.workflow.augment import write_prompt
from epigram.workflow.encode import encode_view
from tests.support.text_samples import validated

PAIRS = {"salt": "pepper", "bread": "butter", "rain": "wind", "pen": "paper", "cat": "mouse", "sun": "moon"}
SMALL = {"width": 32, "depth": 2, "heads": 2, "hidden": 32, "batch_size": 16, "learning_rate": 5e-3}


def rows(count: int, seed: int) -> list[tuple[str, str]]:
    """Return texts in which either word of a pair predicts the other."""
    draw = random.Random(seed)
    firsts = [draw.choice(list(PAIRS)) for _ in range(count)]
    return [(f"{first} and {PAIRS[first]}", draw.choice(["pos", "neg"])) for first in firsts]


CORPUS = {"train": rows(400, 0), "dev": rows(6, 1), "test": [("zebra and zebra", "pos"), ("salt", "neg")]}


def write_corpus(folder: Path, corpus: dict[str, list[tuple[str, str]]] = CORPUS) -> None:
    """Write what the stage encode reads to `folder`."""
    validated(folder / "validated", "en", corpus)
    (folder / "pos").mkdir()
    save(build(PosTableSettings()), folder / "pos", {})
    write_prompt(AugmentSettings(), folder / "validated", folder / "augmented")


def encode(folder: Path, view: ViewSettings, name: str) -> Path:
    """Encode the corpus of `folder` into its new folder `name`, which is returned."""
    places = (folder / "validated", folder / "augmented", folder / "pos", folder / name)
    encode_view("v", view, EncodeSettings(), *places)
    return folder / name


def params(root: Path, view: dict[str, Any] | None, **sections: Any) -> None:
    values = {
        "dataset": "x",
        "seeds": [0],
        "views": {"v": {"tokenizer": "token"} | (view or {})},
        "systems": {"s": {"view": "v"}},
    }
    values |= sections
    (root / "params.yaml").write_text(yaml.safe_dump(values))
