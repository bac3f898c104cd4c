"""Model card of the chosen model: its scores with intervals, by label, calibration, limits, cost and use."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment

from epigram.checkpoints.folders import PACKAGES, PREFIX
from epigram.checkpoints.hub import ADDRESS
from epigram.core.files import read_json, write_text
from epigram.evaluation.comparison.formats import score_with_interval
from epigram.evaluation.metrics.primary import title_of
from epigram.evaluation.records.results import Metrics
from epigram.evaluation.records.summary import Row, Summary
from epigram.models import manifest
from epigram.process.display import escape_markdown
from epigram.report.first_screen import weakest_label
from epigram.report.page import report_environment

FLOPS_PER_JOULE = 5e9  # a rough figure for server processors
NAMED_LABELS = 20  # maximum number of labels that the card lists


def write_chosen_card(folder: Path, summary: Summary, metrics: Metrics) -> None:
    """Replace the card of the chosen model in `folder`, and write its manifest again, with the levels of its labels."""
    row, config, facts = summary.chosen, read_json(folder / "config.json"), manifest.read_facts(folder)
    members = sorted((folder / manifest.MEMBERS).iterdir()) if (folder / manifest.MEMBERS).is_dir() else []
    known = [facts, *(manifest.read_facts(member) for member in members)]
    checkpoints = sorted({each["checkpoint"] for each in known if each.get("checkpoint")})
    text = (
        _environment()
        .get_template("model_card.md.j2")
        .render(
            metadata=_metadata(summary, row, checkpoints).to_yaml().strip(),
            summary=summary,
            row=row,
            metrics=metrics,
            config=config,
            members=[member.name for member in members],
            max_length=config.get("frame", {}).get("max_length"),
            shown=metrics.classes[:NAMED_LABELS],
            worst=weakest_label(summary, metrics),
            encoders=[(name, _licence(name)) for name in checkpoints],
            kilowatt_hours=row.flops * 1e6 / FLOPS_PER_JOULE / 3.6e6,
        )
    )
    write_text(folder / manifest.CARD, text)
    levels = {manifest.HIERARCHY: metrics.hierarchy} if metrics.hierarchy else {}
    manifest.write(folder, facts | levels)


def _metadata(summary: Summary, row: Row, checkpoints: list[str]) -> ModelCardData:
    """Return the metadata of the hub, with the scores as its model index."""
    found = {"f1": row.macro_f1} if summary.task == "multi" else {"accuracy": row.test_accuracy, "f1": row.macro_f1}
    titles = {"accuracy": "accuracy", "f1": "macro-F1"}
    results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=summary.dataset,
            dataset_name=summary.dataset,
            dataset_split="train" if summary.out_of_fold else "test",
            metric_type=name,
            metric_name=titles[name] + (", out of fold" if summary.out_of_fold else ""),
            metric_value=round(value, 4),
        )
        for name, value in found.items()
    ]
    bases = [match[1] for match in map(ADDRESS.fullmatch, checkpoints) if match]
    return ModelCardData(
        language=summary.language,
        library_name="epigram",
        pipeline_tag="text-classification",
        model_name=row.system,
        base_model=bases or None,
        eval_results=results,
    )


def _licence(checkpoint: str) -> str:
    """Return the licence of a checkpoint, as far as it is known."""
    package = PACKAGES.get(checkpoint.removeprefix(PREFIX))
    return package.licence if package else "see its own page or folder"


def _environment() -> Environment:
    found = report_environment()
    found.autoescape = False  # Markdown: names and labels are escaped by the filter `md`
    found.filters |= {"md": escape_markdown, "title": title_of}
    found.globals["score"] = score_with_interval
    return found
