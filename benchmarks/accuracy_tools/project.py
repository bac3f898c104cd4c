"""A task as rows of a data set of epigram: every labelled text is in train, the texts to predict are in no split."""

from __future__ import annotations

from benchmarks.accuracy_tools.task import Row, Task

NAME = "texts"
LOCAL = f"data/local/{NAME}.jsonl"
SOURCE = """
name: {name}
about: texts of the accuracy grid
language: {language}
task: single
licence: that of the texts
files: [{{path: {name}.jsonl, local: {local}}}]
read: {{reader: jsonl, text: text, label: label, split: split}}
splits: {{train: [train], test: [test]}}
"""


def rows_of(task: Task) -> list[Row]:
    """Return the rows, with their splits.

    The pipeline would split test off from train, which the peers train on. Its test therefore has a marked copy of one
    text of each label; its score means nothing, and no choice depends on it.
    """
    labelled = list(zip(task.texts, task.labels, strict=True))
    first = {label: text for text, label in reversed(labelled)}
    train = [{"text": text, "label": label, "split": "train"} for text, label in labelled]
    return train + [{"text": f"{text} (copy)", "label": label, "split": "test"} for label, text in first.items()]


def source_of(task: Task) -> str:
    """Return the content of the data set's file in data/sources."""
    return SOURCE.format(name=NAME, language=task.terms.language, local=LOCAL)
