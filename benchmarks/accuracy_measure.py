"""Measurement of one cell: the task's files, the tool's process, and the score of its predictions."""

from __future__ import annotations

import hashlib
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import results
from benchmarks.accuracy_catalogue import Tool
from benchmarks.accuracy_cells import Cell, Found
from benchmarks.accuracy_data import Corpus, sample, split_off_dev
from benchmarks.accuracy_environments import variables
from benchmarks.accuracy_process import run
from benchmarks.accuracy_tools.task import PREDICTIONS, Terms, write_task

if TYPE_CHECKING:
    import polars as pl

THREADS = 2
GRACE = 120.0  # seconds after twice the budget until a tool is stopped


def measure(cell: Cell, tool: Tool, corpus: Corpus, python: str, *, final: bool) -> Found:
    """Return the content of a cell's file: scores on test or, without `final`, on rows held out of train.

    A tool that fails, or that is not done within the limit, has `failed` and no scores.
    """
    train = sample(corpus, cell.rows, cell.sample)
    train, scored = (train, corpus.test) if final else split_off_dev(train)
    with TemporaryDirectory() as scratch:
        folder, log = Path(scratch) / "task", Path(scratch) / "log"
        folder.mkdir()
        terms = Terms(corpus.language, cell.budget, THREADS, cell.sample, time.time())
        write_task(folder, train.select("text", "label").to_dicts(), scored["text"].to_list(), terms)
        command = [python, "-m", f"{tool.package}.{tool.module}", *tool.arguments]
        limit = 2 * cell.budget + GRACE
        ended = run(command, folder, limit=limit, changes=variables(tool, THREADS), log=log)
        answer = {"failed": ended.failure} if ended.failure else score(folder / PREDICTIONS, scored)
    load = {"seconds": ended.seconds, "peak_mb": ended.peak_mb, "other_processors": ended.others}
    return {**answer, **load, **_about(train, scored)}


def score(path: Path, scored: pl.DataFrame) -> Found:
    """Return the scores of a tool's predictions, and which rows are right as hexadecimal digits of a bit per row.

    The value is {"failed": why} if there is not one label for each row.
    """
    from sklearn.metrics import f1_score

    try:
        found: Found = json.loads(path.read_text(encoding="utf-8"))
        predicted = np.array([str(label) for label in found.pop("labels")])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return {"failed": f"{path.name}: {type(error).__name__}: {error}"[:300]}
    labels = scored["label"].to_numpy().astype(str)
    if len(predicted) != len(labels):
        return {"failed": f"{path.name}: {len(predicted)} labels; expected {len(labels)}"}
    right = predicted == labels
    f1 = f1_score(labels, predicted, labels=np.unique(labels), average="macro", zero_division=0)
    return {
        "accuracy": round(100 * float(right.mean()), 2),
        "macro_f1": round(100 * float(f1), 2),
        "right": np.packbits(right).tobytes().hex(),
        **found,
    }


def _about(train: pl.DataFrame, scored: pl.DataFrame) -> Found:
    """Return the rows of a cell, with a digest, and what measured them."""
    digest = hashlib.sha256("\n".join(part.write_ndjson() for part in (train, scored)).encode()).hexdigest()
    return {
        "train_rows": train.height,
        "test_rows": scored.height,
        "data": digest[:16],
        "machine": results.machine(),
        "commit": results.commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }
