"""prune: drop the layers that the depth controller finds idle, and fine-tune.

python -m pithy.stages.prune SYSTEM ENCODED MODELS OUT

OUT holds the final model of every seed (the trained one where nothing was dropped) and pruning.json.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from pithy.errors import arguments, guarded
from pithy.files import atomic_folder, read_json, write_json
from pithy.pruning.depth import Pruned, prune
from pithy.pruning.tradeoff import record_of
from pithy.settings import PruneSettings, select
from pithy.systems.saved import Saved, load, save_again
from pithy.text.view import View
from pithy.training.config import TrainingConfig
from pithy.training.progress import Printer
from pithy.training.tuning import thresholds_of
from pithy.training.views import batches_of, device_of

PARAMS = ("seeds", "prune")


def prune_seed(name: str, view: View, folder: Path, settings: PruneSettings, out: Path) -> dict[str, Any]:
    """Prune one seed's model and write the final one; returns its record for pruning.json."""
    saved, facts = load(folder), read_json(folder / "manifest.json")
    config = TrainingConfig(**facts["training"])
    torch.set_num_threads(config.threads)
    torch.manual_seed(facts["seed"])
    printer = Printer(f"{name} seed {facts['seed']}")
    device = device_of()
    train, dev = (batches_of(view, split, saved.frame, device) for split in ("train", "dev"))
    pruned = prune(
        saved.model.to(device),
        train,
        dev,
        classes=len(saved.labels),
        settings=settings,
        config=config,
        rate=facts["rate"],
        seed=facts["seed"],
        report=printer,
    )
    _write(saved, pruned, view, out)
    printer.close(f"{name} seed {facts['seed']}: {pruned.reason}")
    return record_of(saved, pruned, facts)


def _write(saved: Saved, pruned: Pruned, view: View, out: Path) -> None:
    if pruned.accepted:
        thresholds = thresholds_of(pruned.model, view, saved.frame)
        save_again(out, saved, pruned.model, {"dev_accuracy": pruned.dev_after}, thresholds)
    else:
        shutil.copytree(saved.folder, out)


@guarded
def main() -> None:
    """Read the settings and prune every seed."""
    name, encoded, models, out = arguments("SYSTEM", "ENCODED", "MODELS", "OUT")
    settings = select(PARAMS)
    view = View.load(Path(encoded))
    with atomic_folder(Path(out)) as folder:
        records = [
            prune_seed(name, view, Path(models) / f"seed-{seed}", settings.prune, folder / f"seed-{seed}")
            for seed in settings.seeds
        ]
        write_json(folder / "pruning.json", {"seeds": records})


if __name__ == "__main__":
    main()
