"""train: train one model of a system per seed.

python -m epigram.stages.train SYSTEM ENCODED PRETRAINED OUT

Under torchrun the processes train in parallel, and rank 0 writes. Finished seeds and checkpoints are kept under
.epigram/state until all seeds are finished, so that an interrupted run resumes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.collection import no_collection
from epigram.core.display import echo
from epigram.core.errors import ParameterError, arguments, handle_errors
from epigram.core.files import atomic_folder
from epigram.core.settings import Params
from epigram.core.stage_process import run_stage
from epigram.models.settings import System

if TYPE_CHECKING:
    from epigram.models.recipe import Recipe
    from epigram.text.encoded_dataset import View
    from epigram.training.config import TrainingConfig

PARAMS = ("seeds", "train", "systems.{key}")


def train_seed(
    name: str, recipe: Recipe, config: TrainingConfig, view: View, pretrained: Path | None, seed: int, out: Path
) -> None:
    """Train one seed, resuming from its last checkpoint, and write its folder."""
    from epigram.training.save_trained import Origin
    from epigram.training.train_and_save import train_and_save

    origin = Origin(recipe=recipe, config=config, view=view, pretrained=pretrained, seed=seed)
    train_and_save(name, System.section, origin, out)


@handle_errors
def main() -> None:
    """Read the settings and train every seed."""
    with no_collection():
        from epigram.inference.dataset_batches import count_truncated, template_of
        from epigram.training import parallel
        from epigram.training.check_system import check_system
        from epigram.training.checkpoint import read_finished, resume_folder
        from epigram.training.setup import read_setup

    name, encoded, pretrained, out = arguments("SYSTEM", "ENCODED", "PRETRAINED", "OUT")
    params = Params.read(PARAMS, key=name)
    seeds, shared, system = params.seeds, params.section("train", dict[str, Any]), params.entry("systems", System)
    setup = read_setup(name, system, shared, Path(encoded), Path(pretrained))
    view = setup.view
    for warning in check_system(name, system, shared, setup.data):
        echo(f"{name}: {warning}")
    frame = template_of(view, setup.config.max_length)
    if truncated := count_truncated(view, frame, "train"):
        echo(f"{name}: {truncated:,} training texts are truncated to {frame.max_length} tokens (train.max_length)")
    with parallel.process_group(), resume_folder("train", name, setup.facts) as folder:
        if view.folds and parallel.processes() > 1:
            raise ParameterError("train has folds, which are trained in one process; start without torchrun")
        for seed in seeds:
            if read_finished(folder / f"seed-{seed}") is None:
                train_seed(name, seed=seed, out=folder / f"seed-{seed}", **vars(setup))
        if parallel.rank() == 0:
            with atomic_folder(Path(out)) as whole:
                for seed in seeds:
                    shutil.copytree(folder / f"seed-{seed}", whole / f"seed-{seed}")


if __name__ == "__main__":
    run_stage(main)
