"""Tests of the benchmark of students: it runs the commands of dvc.yaml, and reports the scores of each model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from benchmarks import corpora, students
from benchmarks.timing import ROOT


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Prepare `folder` with 30 rows of train, and return the list to which the commands of stages are added."""
    validated, commands = folder / "data/validated", list[str]()
    validated.mkdir(parents=True)
    texts = [f"text {number}\nof two lines" for number in range(30)]
    pl.DataFrame({"text": texts, "label": ["a", "b"] * 15}).write_parquet(validated / "train.parquet")
    (validated / "corpus.json").write_text('{"language": "en"}', encoding="utf-8")
    monkeypatch.setattr(students, "download", lambda source, where: None)
    for module in (corpora, students):
        monkeypatch.setattr(module, "process", lambda arguments, where: commands.append(" ".join(arguments)))
    students.prepare(folder, "mr", rows=8, texts=20, seeds=2)
    return commands


def of_dvc(params: dict[str, Any]) -> set[str]:
    """Return the commands of dvc.yaml for the views and systems of `params`."""
    found = set()
    for stage in yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"].values():
        over = str(stage.get("foreach", ""))
        entries = params[re.sub(r"[${}]", "", over)] if over else {"": {}}
        for key, item in entries.items():
            command = stage.get("do", stage)["cmd"].replace("${key}", key)
            found.add(command.replace("${item.view}", str(item.get("view"))).removeprefix("python "))
    return found


def test_the_stages_are_those_of_dvc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = prepared(tmp_path, monkeypatch)
    (tmp_path / "data/ensemble/seed-0").mkdir(parents=True)
    (tmp_path / "data/ensemble/metrics.json").write_text("{}")
    students.run(tmp_path)
    params = yaml.safe_load((tmp_path / "params.yaml").read_text(encoding="utf-8"))
    assert {name for name, each in params["systems"].items() if "teacher" in each} == set(students.STUDENTS)
    ours, missing = set(commands), {"download", "examine", "compare"}
    wanted = {each for each in of_dvc(params) if each.split()[1].rpartition(".")[2] not in missing}
    assert ours == wanted
    assert (tmp_path / students.TEACHER).is_dir()
    assert commands.index(next(each for each in commands if ".ensemble " in each)) < commands.index(
        next(each for each in commands if "encode student" in each)
    )


def test_the_texts_are_single_lines_without_labels_and_the_labelled_rows_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(tmp_path, monkeypatch)
    params = yaml.safe_load((tmp_path / "params.yaml").read_text(encoding="utf-8"))
    lines = (tmp_path / students.TEXTS).read_text(encoding="utf-8").splitlines()
    assert len(set(lines)) == 20 and all(re.fullmatch(r"text \d+ of two lines", line) for line in lines)
    assert params["validate"]["max_train_rows"] == 8
    assert params["seeds"] == [0, 1]
    assert params["views"]["student"]["texts"] == students.TEXTS


def test_the_scores_are_the_mean_of_the_seeds_and_the_size_is_that_of_one_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.safetensors").write_bytes(bytes(2_340_000))
    metrics = {"dev_score": {"value": 0.7114}, "test_score": {"value": 0.6996}}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    found = students._scores(tmp_path, tmp_path / "model")
    assert found == {"dev": 71.1, "test": 70.0, "megabytes": 2.3}
