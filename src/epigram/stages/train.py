"""train: train one model of a system per seed.

python -m epigram.stages.train SYSTEM ENCODED PRETRAINED OUT

With `train.processes`, or under torchrun, several processes train in parallel, and the first one writes. Finished seeds
and checkpoints are kept under .epigram/state until all seeds are finished, so that an interrupted run resumes. A system
with a teacher learns from the probabilities of this saved model; OUT then has student.json as well.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.files import atomic_folder
from epigram.core.settings import Params
from epigram.models.settings import System
from epigram.process.display import echo
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage
from epigram.process.startup import no_collection

if TYPE_CHECKING:
    from epigram.models.predict import Array
    from epigram.models.recipe import Recipe
    from epigram.text.dataset.encoded_dataset import View
    from epigram.training.config import TrainingConfig
    from epigram.training.system_setup import Setup
    from epigram.training.teacher import Teacher

PARAMS = ("seeds", "train", "systems.{key}")


def train_seed(
    name: str,
    recipe: Recipe,
    config: TrainingConfig,
    view: View,
    pretrained: Path | None,
    seed: int,
    out: Path,
    teacher: Teacher | None = None,
    targets: Array | None = None,
) -> None:
    """Train one seed, resuming from its last checkpoint, and write its folder.

    A student learns the `targets` of its teacher.
    """
    from epigram.training.train_model import train_model
    from epigram.training.write_model import Origin

    origin = Origin(recipe=recipe, config=config, view=view, pretrained=pretrained, seed=seed, teacher=teacher)
    train_model(name, origin, out, targets)


@handle_errors
def main() -> None:
    """Read the settings and train every seed, in several processes if the settings say so."""
    with no_collection():
        from epigram.training.check_student import check_student
        from epigram.training.check_system import check_system
        from epigram.training.distributed.launch import launch
        from epigram.training.distributed.parallel import process_group
        from epigram.training.distributed.processes import launched_processes
        from epigram.training.system_setup import read_setup

    name, encoded, pretrained, out = arguments("SYSTEM", "ENCODED", "PRETRAINED", "OUT")
    params = Params.read(PARAMS, key=name)
    seeds, shared, system = params.seeds, params.section("train", dict[str, Any]), params.entry("systems", System)
    setup = read_setup(name, system, shared, Path(encoded), Path(pretrained))
    view = setup.view
    warnings = check_system(name, system, shared, setup.data)
    texts = None if view.unlabelled is None else str(view.unlabelled["file"])
    warnings += check_student(name, system, shared, setup.data, texts, words_only=view.tokens_only)
    if int(setup.config.processes) > launched_processes():
        launch("epigram.stages.train", sys.argv[1:], int(setup.config.processes))
        return
    with process_group():
        train_seeds(name, setup, system, seeds, warnings, Path(out))


def train_seeds(name: str, setup: Setup, system: System, seeds: list[int], warnings: list[str], out: Path) -> None:
    """Train every seed that an interrupted run has not finished, together with the processes of the group."""
    from epigram.training.distributed import parallel
    from epigram.training.resume import read_finished, resume_folder
    from epigram.training.teacher import Teacher

    teacher = None if system.teacher is None else Teacher.load(name, system, setup.view)
    if parallel.rank() == 0:
        _print_notes(name, setup, warnings)
    with resume_folder("train", name, setup.facts, *(teacher.facts if teacher else ())) as folder:
        folders = {seed: folder / f"seed-{seed}" for seed in seeds}
        unfinished = parallel.from_first(lambda: [each for each in seeds if read_finished(folders[each]) is None])
        targets = teacher.targets() if teacher and unfinished else None
        for seed in unfinished:
            train_seed(name, seed=seed, out=folders[seed], teacher=teacher, targets=targets, **vars(setup))
        if parallel.rank() == 0:
            with atomic_folder(out) as whole:
                for seed in seeds:
                    shutil.copytree(folders[seed], whole / f"seed-{seed}")
                if teacher:
                    teacher.record.write(whole)


def _print_notes(name: str, setup: Setup, warnings: list[str]) -> None:
    from epigram.inference.predictors.dataset_batches import count_truncated, default_device, template_of
    from epigram.training.distributed.hardware import hardware, has_unused_gpu

    if setup.recipe.by_gradient:
        on = hardware(setup.config.precision, default_device())
        echo(f"{name}: device {on['device']}, {on['precision']} products, PyTorch {on['torch']}")
    if setup.recipe.has_encoder and has_unused_gpu():
        echo(f"{name}: warning: the machine has a GPU, but PyTorch is a CPU build; see epigram doctor")
    for warning in warnings:
        echo(f"{name}: {warning}")
    frame = template_of(setup.view, setup.config.max_length)
    if truncated := count_truncated(setup.view, frame, "train"):
        echo(f"{name}: {truncated:,} training texts are truncated to {frame.max_length} tokens (train.max_length)")


if __name__ == "__main__":
    run_stage(main)
