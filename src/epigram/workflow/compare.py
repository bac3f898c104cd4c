"""Comparison of the systems of a run on the development set: ranking, choice and report."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import atomic_folder, read_json, write_text
from epigram.core.records import read_record
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.quality.data_quality import QUALITY, DataQuality, write_quality
from epigram.evaluation.records.ensemble_record import ENSEMBLE, EnsembleRecord
from epigram.evaluation.records.pruning_record import PruningRecord
from epigram.evaluation.records.results import read_evaluation, read_metrics
from epigram.evaluation.records.student_record import read_students
from epigram.evaluation.records.summary import Summary, read_corpus, with_sizes, write_summary
from epigram.evaluation.settings import CompareSettings
from epigram.models import manifest
from epigram.process.display import echo
from epigram.report.chosen_card import write_chosen_card
from epigram.report.columns import comparison_markdown
from epigram.report.data_page import render_page
from epigram.report.dvc_plots import write_plots
from epigram.report.first_screen import Findings
from epigram.report.page import render
from epigram.report.quality import render_quality

DOCUMENTS = ("README.md", "history.json", "manifest.json", "out_of_fold.safetensors")  # not needed to predict


def compare_systems(
    systems: Mapping[str, Any],
    settings: CompareSettings,
    validated: Path,
    examined: Path,
    evaluated: Path,
    ensemble: Path,
    pruned: Path,
    out: Path,
    *,
    expected: Mapping[str, float] | None = None,
    advice: str = "",
) -> None:
    """Compare `systems`, settings by name, and the ensemble, choose one, and write `out` with its model and a report.

    The ensemble, if there is one, is compared like a system. Students whose development score is not their own are not
    ranked. `expected` are the accuracies of systems by experience, which `prefer: best` takes into account. `advice` is
    the report's first step to improve the model.
    """
    names = list(systems)
    if not names:
        raise ParameterError("params.yaml: systems is empty; expected at least one system")
    corpus, about = read_corpus(validated / "corpus.json"), read_json(validated / "report.json")
    record, quality = EnsembleRecord.read(ensemble), read_record(DataQuality, examined / QUALITY)
    folders = [evaluated / name for name in names]
    folders += [ensemble] if record.members else []
    scored = {metrics.system: metrics for metrics in map(read_metrics, folders)}
    students = read_students(pruned, names)
    homes = {name: ensemble if name == ENSEMBLE else pruned / name for name in scored}
    models = {name: homes[name] / f"seed-{metrics.seeds[0].seed}" for name, metrics in scored.items()}
    unranked = {name: student.unranked for name, student in students.items() if student.unranked}
    if len(unranked) == len(names):
        raise ParameterError(
            "params.yaml: every system has a teacher, and none of them can be ranked (docs/systems.md); add a system "
            "without a teacher"
        )
    summary = compare(corpus, map(read_evaluation, folders), settings.alpha, settings.prefer, unranked, expected)
    summary = with_sizes(summary, {name: _megabytes(folder) for name, folder in models.items()})
    prunings = {name: PruningRecord.read(pruned / name) for name in scored}
    with atomic_folder(out) as temporary:
        write_summary(temporary / "summary.json", summary)
        write_text(temporary / "comparison.md", comparison_markdown(summary))
        findings = Findings.of(quality, about["leaks"]["left"], advice)
        quality_page = render_quality(quality, corpus.language)
        settings_page = _settings(summary, systems, record, models[summary.chosen_system])
        given = record, quality_page, students, findings, settings_page
        page = render(summary, scored, prunings, render_page(about), *given)
        write_text(temporary / "report.html", page)
        write_quality(temporary, quality)
        write_plots(temporary, summary, scored, homes)
        _copy_model(homes[summary.chosen_system] / f"seed-{summary.chosen_seed}", temporary / "chosen")
        write_chosen_card(temporary / "chosen", summary, scored[summary.chosen_system])
    echo(summary.verdict)


def _settings(summary: Summary, systems: Mapping[str, Any], ensemble: EnsembleRecord, model: Path) -> str:
    """Return the settings of the chosen system, or of an ensemble's members, and of a training by gradient, as YAML."""
    import yaml

    members = [member.system for member in ensemble.members]
    chosen = members if summary.chosen_system == ENSEMBLE else [summary.chosen_system]
    known = {"systems": {name: systems[name] for name in chosen}, "seed": summary.chosen_seed}
    facts = manifest.read_facts(model)
    training = {"training": facts["training"]} if facts.get("epoch") else {}  # a linear model has no epochs
    return str(yaml.safe_dump(known | training, sort_keys=False, allow_unicode=True))


def _megabytes(folder: Path) -> float:
    """Return the size of the weights, tokenizers and settings of a model."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in DOCUMENTS]
    return round(sum(file.stat().st_size for file in files) / 1e6, 3)


def _copy_model(folder: Path, to: Path) -> None:
    if not folder.is_dir():
        raise InputMissingError(f"{folder} (the chosen model) is missing: run dvc repro")
    shutil.copytree(folder, to)
