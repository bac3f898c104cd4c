"""compare: rank the systems of a run on the development set, choose one, and write the report.

python -m epigram.stages.compare VALIDATED EXAMINED EVALUATED ENSEMBLE PRUNED OUT

The ensemble, if there is one, is compared like a system. Students whose development score is not their own are not
ranked. Writes OUT/summary.json, OUT/comparison.md, OUT/report.html, OUT/chosen/ (a copy of the chosen model), and the
files that DVC compares between git revisions, OUT/metrics.json and OUT/plots/.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import atomic_folder, write_text
from epigram.core.settings import Params
from epigram.evaluation.settings import CompareSettings
from epigram.process.display import echo
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

if TYPE_CHECKING:
    from epigram.evaluation.records.results import Metrics

PARAMS = ("systems", "compare")
DOCUMENTS = ("README.md", "history.json", "manifest.json", "out_of_fold.safetensors")  # not needed to predict


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Folders that the stage reads."""

    validated: Path
    examined: Path
    evaluated: Path
    ensemble: Path
    pruned: Path


def run(names: list[str], settings: CompareSettings, inputs: Inputs, out: Path) -> None:
    """Compare the systems `names` and the ensemble, and write `out` atomically."""
    from epigram.evaluation.comparison.comparison import compare
    from epigram.evaluation.records.ensemble_record import EnsembleRecord
    from epigram.evaluation.records.pruning_record import PruningRecord
    from epigram.evaluation.records.results import read_evaluation, read_metrics, read_text
    from epigram.evaluation.records.student_record import read_students
    from epigram.evaluation.records.summary import read_corpus, with_sizes, write_summary
    from epigram.report.columns import comparison_markdown
    from epigram.report.dvc_plots import write_plots
    from epigram.report.page import render

    if not names:
        raise ParameterError("params.yaml: systems is empty; expected at least one system")
    corpus, data_page = read_corpus(inputs.validated / "corpus.json"), read_text(inputs.validated / "report.html")
    record, quality_page = EnsembleRecord.read(inputs.ensemble), read_text(inputs.examined / "report.html")
    folders = [inputs.evaluated / name for name in names]
    folders += [inputs.ensemble] if record.members else []
    systems = {metrics.system: metrics for metrics in map(read_metrics, folders)}
    students = read_students(inputs.pruned, names)
    models = {name: _model(inputs, metrics) for name, metrics in systems.items()}
    unranked = {name: student.unranked for name, student in students.items() if student.unranked}
    if len(unranked) == len(names):
        raise ParameterError(
            "params.yaml: every system has a teacher, and none of them can be ranked (docs/systems.md); add a system "
            "without a teacher"
        )
    summary = compare(corpus, map(read_evaluation, folders), settings.alpha, settings.prefer, unranked)
    summary = with_sizes(summary, {name: _megabytes(folder) for name, folder in models.items()})
    prunings = {name: PruningRecord.read(inputs.pruned / name) for name in systems}
    with atomic_folder(out) as temporary:
        write_summary(temporary / "summary.json", summary)
        write_text(temporary / "comparison.md", comparison_markdown(summary))
        write_text(
            temporary / "report.html", render(summary, systems, prunings, data_page, record, quality_page, students)
        )
        write_plots(temporary, summary, systems, {name: each.parent for name, each in models.items()})
        chosen = models[summary.chosen_system].with_name(f"seed-{summary.chosen_seed}")
        _copy_model(chosen, temporary / "chosen")
    echo(summary.verdict)


def _model(inputs: Inputs, metrics: Metrics) -> Path:
    """Return the folder of the first seed's model."""
    from epigram.evaluation.records.ensemble_record import ENSEMBLE

    name = metrics.system
    return (inputs.ensemble if name == ENSEMBLE else inputs.pruned / name) / f"seed-{metrics.seeds[0].seed}"


def _megabytes(folder: Path) -> float:
    """Return the size of the weights, tokenizers and settings of a model."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in DOCUMENTS]
    return round(sum(file.stat().st_size for file in files) / 1e6, 3)


def _copy_model(folder: Path, to: Path) -> None:
    if not folder.is_dir():
        raise InputMissingError(f"{folder} (the chosen model) is missing: run dvc repro")
    shutil.copytree(folder, to)


@handle_errors
def main() -> None:
    """Read the settings and write the comparison."""
    *folders, out = map(Path, arguments(*(each.name.upper() for each in fields(Inputs)), "OUT"))
    params = Params.read(PARAMS)
    names = list(params.section("systems", dict[str, Any]))
    inputs = Inputs(**dict(zip((each.name for each in fields(Inputs)), folders, strict=True)))
    run(names, params.section("compare", CompareSettings), inputs, out)


if __name__ == "__main__":
    run_stage(main)
