"""distill: train a student by the probabilities that the ensemble has for texts without labels.

python -m epigram.stages.distill STUDENT ENCODED PRETRAINED EVALUATED ENSEMBLE PRUNED OUT

The student learns the labels of the training texts, and the probabilities of its teacher for the texts without labels
of its view. The teacher is the ensemble or, if there is none, the best system on the development set; each seed's
student has the teacher of the same seed. OUT has a model folder for each seed, and student.json.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.display import echo
from epigram.core.errors import ParameterError, arguments, handle_errors
from epigram.core.files import atomic_folder, read_arrays, sha256, write_arrays
from epigram.core.settings import Params
from epigram.core.stage_process import run_stage
from epigram.models.settings import Student

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from epigram.evaluation.student_record import StudentRecord
    from epigram.text.encoded_dataset import View
    from epigram.training.save_trained import Origin

PARAMS = ("seeds", "train", "systems", "students.{key}")
KEPT = Path(".epigram/taught")  # predictions of teachers


def find_teacher(systems: list[str], evaluated: Path, ensemble: Path, pruned: Path) -> tuple[str, Path]:
    """Return the name of the teacher, and the folder with its model for each seed."""
    from epigram.core.records import read_record
    from epigram.evaluation.ensemble_record import ENSEMBLE, EnsembleRecord
    from epigram.evaluation.results import Metrics
    from epigram.evaluation.student_record import teacher_of

    metrics = [read_record(Metrics, evaluated / name / "metrics.json") for name in systems]
    name = teacher_of(EnsembleRecord.read(ensemble), metrics)
    return name, ensemble if name == ENSEMBLE else pruned / name


def teach(view: View, teacher: Path) -> NDArray[np.float32]:
    """Return the probabilities (N + M, C) of the N training texts, 0 or 1, and of the M texts without labels.

    Those of the teacher, whose manifest is `teacher`, are kept in KEPT by the teacher and the texts, for the other
    students of the view and for an interrupted run.
    """
    import numpy as np

    from epigram.inference.open_predictor import open_predictor
    from epigram.text.student_texts import TEXTS, load_texts

    kept = KEPT / f"{sha256(teacher)[:16]}-{sha256(view.folder / TEXTS)[:16]}.safetensors"
    if not kept.is_file():
        probabilities = open_predictor(teacher.parent).probabilities(load_texts(view.folder))
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(kept, {"probabilities": probabilities})
    labels, soft = np.asarray(view.split("train").labels), read_arrays(kept)["probabilities"]
    hard = labels if view.task == "multi" else labels[:, None] == np.arange(len(view.labels))
    return np.concatenate([hard.astype(np.float32), soft])


def train_seed(name: str, origin: Origin, out: Path) -> None:
    """Train the student of one seed, resuming from its last checkpoint, and write its folder."""
    from epigram.inference.dataset_batches import default_device, taught_batches, template_of
    from epigram.training import fitters
    from epigram.training.checkpoint import Checkpoints, mark_finished
    from epigram.training.progress import Printer
    from epigram.training.save_trained import Tuned, save_trained
    from epigram.training.train_system import prepare
    from epigram.training.trained import FitOptions
    from epigram.training.tuning import tune

    assert origin.teacher is not None
    view, config, label, path = origin.view, origin.config, f"{name} seed {origin.seed}", f"students.{name}"
    printer, checkpoints = Printer(label), Checkpoints(out.with_name(f"{out.name}-steps"))
    targets = teach(view, origin.teacher)
    model, _, dev = prepare(origin.recipe, config, view, origin.seed, path, origin.pretrained)
    frame = template_of(view, config.max_length, model)
    texts = taught_batches(view, frame, targets, default_device())
    options = FitOptions(
        config=config,
        path=path,
        seed=origin.seed,
        rate=config.learning_rate,
        report=printer,
        checkpoints=checkpoints,
    )
    trained = fitters.KINDS[origin.recipe.kind](model, texts, dev, options)
    thresholds = tune(trained.model, view, frame, config.precision)
    tuned = Tuned(score=trained.dev_accuracy, thresholds=thresholds, history=trained.history)
    save_trained(out, trained, tuned, frame, origin)
    mark_finished(out, checkpoints)
    printer.close(f"{label}: dev {100 * tuned.score:.1f} at epoch {trained.epoch}")


def _record(teacher: str, view: View) -> StudentRecord:
    from epigram.evaluation.student_record import StudentRecord

    assert view.unlabelled is not None
    counts: dict[str, Any] = {name: view.unlabelled[name] for name in ("held_out", "known")}
    labelled = len(view.split("train"))
    return StudentRecord(teacher=teacher, labelled=labelled, unlabelled=view.unlabelled["texts"], **counts)


@handle_errors
def main() -> None:
    """Read the settings and train the student of every seed."""
    import torch

    from epigram.inference.dataset_batches import data_spec_of
    from epigram.models.registry import recipe_of
    from epigram.nn.pretrained.warm_start import find_pretrained
    from epigram.text.encoded_dataset import View
    from epigram.training.check_student import check_student
    from epigram.training.checkpoint import read_finished, resume_folder
    from epigram.training.config import configure
    from epigram.training.save_trained import Origin
    from epigram.training.threads import resolve_threads

    name, *folders = arguments("STUDENT", "ENCODED", "PRETRAINED", "EVALUATED", "ENSEMBLE", "PRUNED", "OUT")
    encoded, pretrained, evaluated, ensemble, pruned, out = map(Path, folders)
    params = Params.read(PARAMS, key=name)
    seeds, shared, student = params.seeds, params.section("train", dict[str, Any]), params.entry("students", Student)
    view = View.load(encoded)
    recipe = recipe_of(name, student, shared, checkpoint=view.checkpoint)
    config = resolve_threads(configure(name, recipe, shared, student.section), recipe, view.checkpoint)
    torch.set_num_threads(int(config.threads))
    start = find_pretrained(pretrained, view.tokenizer_json)
    texts = None if view.unlabelled is None else str(view.unlabelled["file"])
    for warning in check_student(name, student, shared, data_spec_of(view, config.max_length, start), texts):
        echo(f"{name}: {warning}")
    if view.tokens_only:
        raise ParameterError(
            f"params.yaml: students.{name} learns labels of texts, but {view.corpus} has only labels of words; "
            "remove it"
        )
    if view.folds:
        raise ParameterError(
            f"params.yaml: students.{name} is chosen on dev, but train has {view.folds} folds, whose labels the "
            "teacher has learned; set validate.folds to 0 for a dev split, or remove the student"
        )
    teacher, models = find_teacher(list(params.section("systems", dict[str, Any])), evaluated, ensemble, pruned)
    manifests = [models / f"seed-{seed}" / "manifest.json" for seed in seeds]
    with resume_folder("distill", name, recipe, config, view.fingerprint, *map(sha256, manifests)) as state:
        for seed, manifest in zip(seeds, manifests, strict=True):
            if read_finished(state / f"seed-{seed}") is None:
                origin = Origin(recipe=recipe, config=config, view=view, seed=seed, pretrained=start, teacher=manifest)
                train_seed(name, origin, state / f"seed-{seed}")
        with atomic_folder(out) as whole:
            for seed in seeds:
                shutil.copytree(state / f"seed-{seed}", whole / f"seed-{seed}")
            _record(teacher, view).write(whole)


if __name__ == "__main__":
    run_stage(main)
