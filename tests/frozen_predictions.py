"""Known predictions of every system on the embedded corpora, to show that a change of the code changes no model.

python -m tests.frozen_predictions write DATA DATASET      write the models' predictions to tests/frozen/DATASET.json
python -m tests.frozen_predictions compare DATA DATASET    list the systems whose predictions differ

DATA is the folder `data` of a finished run of all systems on DATASET, such as
`epigram run --systems all --dataset pocket_zh`: `.epigram/workspaces/NAME/data`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import epigram
from epigram.core.files import write_json

ROOT = Path(__file__).parents[1]
FROZEN = ROOT / "tests/frozen"
TEXTS = 40  # texts of each corpus, evenly spaced
TOLERANCE = 2e-4  # of a probability: the order of sums may change it, another model does by far more


def texts_of(dataset: str) -> list[str]:
    """Return evenly spaced texts of an embedded corpus."""
    lines = (ROOT / f"data/pocket/{dataset}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines[:: len(lines) // TEXTS][:TEXTS]]


def predictions_of(model: Path, texts: list[str]) -> dict[str, Any]:
    """Return the labels of a saved model with the probabilities (N, C) of the texts, rounded to four digits."""
    loaded = epigram.load(str(model))
    return {"labels": list(loaded.labels), "probabilities": np.round(loaded.probabilities(texts), 4).tolist()}


def models_of(data: Path) -> dict[str, Path]:
    """Return the final model of the first seed of each system."""
    return {folder.name: folder / "seed-0" for folder in sorted((data / "pruned").iterdir())}


def difference(known: dict[str, Any], found: dict[str, Any]) -> str:
    """Return how predictions differ from the known ones; empty if they are equal."""
    if known["labels"] != found["labels"]:
        return f"labels {found['labels']} instead of {known['labels']}"
    before, now = (np.array(each["probabilities"]) for each in (known, found))
    largest = float(np.abs(before - now).max())
    changed = int((before.argmax(1) != now.argmax(1)).sum())
    if largest <= TOLERANCE:
        return ""
    return f"{changed} of {len(now)} labels differ, probabilities by up to {largest:.4f}"


def main() -> int:
    """Write or compare the predictions; return 1 if a system differs or is missing."""
    command, data, dataset = sys.argv[1:]
    path, texts = FROZEN / f"{dataset}.json", texts_of(dataset)
    found = {name: predictions_of(model, texts) for name, model in models_of(Path(data)).items()}
    if command == "write":
        write_json(path, found)
        return 0
    known = json.loads(path.read_text(encoding="utf-8"))
    lines = [f"{name}: missing" for name in known if name not in found]
    lines += [f"{name}: {text}" for name in found if name in known and (text := difference(known[name], found[name]))]
    print("\n".join(lines) or f"{len(known)} systems on {dataset}: equal predictions")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
