"""fastText: the library's autotuning on a fifth of the texts, and a final fit to all of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from benchmarks.accuracy_tools.task import Task, finish, read_task, words_of

SHARE = 0.5  # of the budget, for the tuning; its last training and the final fit take as long as a trial
HELD_OUT = 5  # one in so many texts
WIDTH = 100  # not tuned: wider models need up to 15 GB. A fixed bucket ends autotuning with a division by zero
CHOSEN = ("lr", "epoch", "wordNgrams", "minn", "maxn", "bucket", "minCount")


def lines_of(texts: list[str], kind: str) -> list[str]:
    """Return each text on one line, with spaces between its words or its characters."""
    if kind == "words":
        texts = list(map(words_of, texts))
    elif kind == "characters":
        texts = list(map(" ".join, texts))
    return [" ".join(text.split()) for text in texts]


def write(path: Path, numbers: list[int], lines: list[str], rows: list[int]) -> str:
    """Write the chosen rows in the library's format; return the path."""
    path.write_text("".join(f"__label__{numbers[i]} {lines[i]}\n" for i in rows), encoding="utf-8")
    return str(path)


def tuned(task: Task, numbers: list[int], lines: list[str], seconds: float) -> tuple[float, dict[str, Any]]:
    """Return the accuracy on the held-out texts, and the options that autotuning found."""
    import fasttext

    order = random.Random(task.terms.seed).sample(range(len(lines)), len(lines))
    cut = len(lines) // HELD_OUT
    held_out = write(Path("held_out.txt"), numbers, lines, order[:cut])
    model = fasttext.train_supervised(
        input=write(Path("rest.txt"), numbers, lines, order[cut:]),
        autotuneValidationFile=held_out,
        autotuneDuration=max(1, int(seconds)),
        thread=task.terms.threads,
        seed=task.terms.seed,
        verbose=0,
        dim=WIDTH,
    )
    arguments = model.f.getArgs()
    found = {name: getattr(arguments, name) for name in CHOSEN}
    return model.test(held_out)[1], found | {"loss": arguments.loss.name}


def main() -> None:
    """Tune, for Chinese with words and with characters, fit the best options to all texts, and predict."""
    import fasttext

    task = read_task()
    kinds = ["words", "characters"] if task.terms.language == "zh" else ["as they are"]
    names = sorted(set(task.labels))
    numbers = [names.index(label) for label in task.labels]
    lines = {kind: lines_of(task.texts, kind) for kind in kinds}
    seconds = task.terms.left(SHARE) / len(kinds)
    results = {kind: tuned(task, numbers, lines[kind], seconds) for kind in kinds}
    kind = max(kinds, key=lambda kind: results[kind][0])
    path = write(Path("all.txt"), numbers, lines[kind], list(range(len(numbers))))
    options = results[kind][1]
    model = fasttext.train_supervised(
        input=path, thread=task.terms.threads, seed=task.terms.seed, verbose=0, dim=WIDTH, **options
    )
    fitted = task.terms.used
    found, _ = model.predict(lines_of(task.tests, kind))
    predicted = [names[int(label.removeprefix("__label__"))] for (label,) in found]
    finish(predicted, fitted=fitted, settings=f"{kind}, {options}", packages=["fasttext-wheel"])


if __name__ == "__main__":
    main()
