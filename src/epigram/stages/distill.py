"""distill: train a student by the probabilities that the ensemble has for its texts.

python -m epigram.stages.distill STUDENT ENCODED PRETRAINED EVALUATED ENSEMBLE PRUNED OUT

The student learns the probabilities of its teacher for the texts without labels of its view, and the labels of the
training texts. If train has folds, it learns these labels mixed with the teacher's out-of-fold probabilities. The
teacher is the ensemble or, if there is none, the best system on the development set; each seed's student has the
teacher of the same seed. OUT has a model folder for each seed, and student.json.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.display import echo
from epigram.core.errors import arguments, handle_errors
from epigram.core.files import atomic_folder, sha256
from epigram.core.settings import Params
from epigram.core.stage_process import run_stage
from epigram.models.settings import Student

if TYPE_CHECKING:
    from epigram.evaluation.student_record import StudentRecord
    from epigram.text.dataset.encoded_dataset import View

PARAMS = ("seeds", "train", "systems", "students.{key}")


def _record(teacher: str, view: View, label_weight: float) -> StudentRecord:
    from epigram.evaluation.student_record import StudentRecord

    assert view.unlabelled is not None
    counts: dict[str, Any] = {name: view.unlabelled[name] for name in ("held_out", "known")}
    return StudentRecord(
        teacher=teacher,
        labelled=len(view.split("train")),
        folds=view.folds,
        label_weight=label_weight,
        unlabelled=view.unlabelled["texts"],
        **counts,
    )


@handle_errors
def main() -> None:
    """Read the settings and train the student of every seed."""
    from epigram.training.check_student import check_student
    from epigram.training.checkpoint import read_finished, resume_folder
    from epigram.training.save_trained import Origin
    from epigram.training.setup import read_setup
    from epigram.training.teacher import find_teacher
    from epigram.training.train_and_save import train_and_save

    name, *folders = arguments("STUDENT", "ENCODED", "PRETRAINED", "EVALUATED", "ENSEMBLE", "PRUNED", "OUT")
    encoded, pretrained, evaluated, ensemble, pruned, out = map(Path, folders)
    params = Params.read(PARAMS, key=name)
    seeds, shared, student = params.seeds, params.section("train", dict[str, Any]), params.entry("students", Student)
    setup = read_setup(name, student, shared, encoded, pretrained)
    view = setup.view
    texts = None if view.unlabelled is None else str(view.unlabelled["file"])
    for warning in check_student(name, student, shared, setup.data, texts, words_only=view.tokens_only):
        echo(f"{name}: {warning}")
    teacher = find_teacher(list(params.section("systems", dict[str, Any])), evaluated, ensemble, pruned)
    weight = student.label_weight if view.folds else 1.0
    taught = [sha256(file) for file in (*map(teacher.manifest, seeds), teacher.evaluated / "predictions.safetensors")]
    with resume_folder("distill", name, setup.facts, weight, taught) as state:
        for seed in seeds:
            folder = state / f"seed-{seed}"
            if read_finished(folder) is None:
                origin = Origin(
                    **vars(setup),
                    seed=seed,
                    teacher=teacher.manifest(seed),
                    label_weight=weight,
                    thresholds=teacher.thresholds(view, seed),
                )
                train_and_save(name, student.section, origin, folder, teacher.targets(view, seed, weight))
        with atomic_folder(out) as whole:
            for seed in seeds:
                shutil.copytree(state / f"seed-{seed}", whole / f"seed-{seed}")
            _record(teacher.name, view, weight).write(whole)


if __name__ == "__main__":
    run_stage(main)
