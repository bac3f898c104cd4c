"""Time and peak memory of evaluation with many classes and rows, on synthetic predictions of the 20 best labels.

    python -m benchmarks.evaluation [--tiny]

prints a table of three sizes. As a family of `make bench`, it measures the largest one. Of each text, the gold label is
the most probable one with probability 0.7, one of the next 19 with probability 0.27, and none of them otherwise. Errors
are spread over many pairs of labels. There is one system with one seed; dev has a tenth of the rows of test.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import ROOT, Plan, process
from epigram.core.files import read_arrays, write_arrays
from epigram.evaluation.label_probabilities import TOP, LabelProbabilities

SIZES = ((1_000, 1_000_000), (1_000, 100_000), (100, 1_000_000))  # classes, rows of test
SETTINGS = {"classes": SIZES[0][0], "rows": SIZES[0][1], "seeds": 1, "resamples": 2_000}
CHUNK = 50_000  # rows that are drawn at once
GIVEN, EVALUATED = "given.safetensors", "evaluated"


def drawn(rows: int, classes: int, seed: int) -> dict[str, Any]:
    """Return gold labels (N,) and the probabilities of the TOP most probable labels of each row."""
    random = np.random.default_rng(seed)
    frequency = 1 / np.arange(10, classes + 10)
    parts = []
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        gold = random.choice(classes, count, p=frequency / frequency.sum())
        place = np.where(random.random(count) < 0.7, 0, random.integers(1, TOP * 10 // 9, count))  # of gold
        step = random.integers(1, classes // TOP + 1, count)[:, None]
        labels = (gold[:, None] + step * (np.arange(TOP) - place[:, None])) % classes
        sharpness = random.uniform(0.05, 1.5, (count, 1))
        powers = np.exp(-sharpness * np.sort(random.exponential(3, (count, TOP)), axis=1))
        rest = 0.2 * powers[:, -1:]  # the others are less probable
        total = powers.sum(1, keepdims=True) + rest
        parts.append((gold, labels.astype(np.uint16), (powers / total).astype(np.float32), (rest / total)[:, 0]))
    gold, labels, values, rest = (np.concatenate(each) for each in zip(*parts, strict=True))
    return {"gold": gold, "labels": labels, "values": values, "rest": rest.astype(np.float32)}


def draw(folder: Path, classes: int, rows: int) -> None:
    """Write the predictions for dev and test."""
    for seed, (name, count) in enumerate({"dev": rows // 10, "test": rows}.items()):
        write_arrays(folder / f"{name}-{GIVEN}", drawn(count, classes, seed))


def evaluate(folder: Path, classes: int, rows: int) -> None:
    """Score the predictions, as the stage `evaluate` does, and write the evaluation."""
    from epigram.evaluation.evaluate_system import evaluate_system
    from epigram.evaluation.results import Cost, write_evaluation
    from epigram.evaluation.settings import EvaluateSettings
    from epigram.evaluation.splits import Split, SystemOutput, Target

    splits, outputs = {}, {}
    for name in ("dev", "test"):
        known = read_arrays(folder / f"{name}-{GIVEN}")
        count = len(known["gold"])
        texts = [f"{n} {'text' * (n % 9)}" for n in range(count)]
        in_train = np.zeros(count, np.bool_)
        splits[name] = Split(labels=known["gold"], rows=np.arange(count), texts=texts, in_train=in_train)
        top = LabelProbabilities(known["labels"][None], known["values"][None], known["rest"][None], classes)
        outputs[name] = SystemOutput(probabilities=top)
    evaluation = evaluate_system(
        "synthetic",
        Target(task="single", labels=[f"label {n}" for n in range(classes)]),
        seeds=[0],
        dev=splits["dev"],
        test=splits["test"],
        dev_output=outputs["dev"],
        test_output=outputs["test"],
        costs=[Cost(parameters=1, parameters_full=1, depth=None, depth_full=None, flops=1.0)],
        settings=EvaluateSettings(resamples=SETTINGS["resamples"]),
    )
    write_evaluation(folder / EVALUATED, evaluation)


def compare(folder: Path, classes: int, rows: int) -> None:
    """Compare the evaluated system and write the report, as the stage `compare` does."""
    from epigram.core.files import write_text
    from epigram.evaluation import comparison
    from epigram.evaluation.results import read_evaluation, read_metrics
    from epigram.evaluation.summary import Corpus
    from epigram.report.dvc_plots import write_plots
    from epigram.report.page import render

    labels = [f"label {n}" for n in range(classes)]
    sizes = {"train": rows, "dev": rows // 10, "test": rows}
    corpus = Corpus(name="synthetic", language="en", task="single", labels=labels, rows=sizes, notes=[])
    metrics = read_metrics(folder / EVALUATED)
    summary = comparison.compare(corpus, map(read_evaluation, [folder / EVALUATED]), 0.05)
    write_text(folder / "report.html", render(summary, {metrics.system: metrics}, {}, ""))
    (folder / "compared").mkdir(exist_ok=True)
    write_plots(folder / "compared", summary, {metrics.system: metrics}, {metrics.system: folder})


STEPS = {"draw": draw, "evaluate": evaluate, "compare": compare}


def measured(folder: Path, classes: int, rows: int) -> dict[str, dict[str, float]]:
    """Return seconds and peak memory of each step, with the start of its process."""
    code = "import sys; from pathlib import Path; from benchmarks.evaluation import STEPS; "
    call = "STEPS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))"
    sizes = str(classes), str(rows)
    packages = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return {step: process(["-c", code + call, step, str(folder), *sizes], folder, changes=packages) for step in STEPS}


def rows(plan: Plan) -> list[Row]:
    """Return time and peak memory of evaluate and compare together, for the largest size."""
    classes, count = SIZES[0][0], plan.size(SIZES[0][1])
    found = measured(plan.scratch, classes, count)
    both = [found[step] for step in ("evaluate", "compare")]
    work = f"evaluate + compare, {classes:,} classes, {count:,} rows"
    return [
        Row(work, "s", Measured((sum(each["s"] for each in both),)), reach=Reach("≤", 60)),
        Row("the same, peak memory", "GB", Measured((max(each["GB"] for each in both),)), reach=Reach("≤", 2)),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how evaluation grows with classes and rows.")
    parser.add_argument("--tiny", action="store_true", help="a hundredth of the rows, to see that it works")
    plan = Plan(Path(), parser.parse_args().tiny)
    print("| classes | rows | evaluate, s | GB | compare, s | GB | predictions, MB | report, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for classes, full in SIZES:
        count = plan.size(full)
        with TemporaryDirectory(prefix="epigram-bench-") as scratch:
            folder = Path(scratch)
            found = measured(folder, classes, count)
            print(f"{classes} × {count}: {found['draw']['s']:.0f} s to draw", file=sys.stderr)
            files = (folder / EVALUATED / "predictions.safetensors", folder / "report.html")
            sizes = [f"{file.stat().st_size / 1e6:.3g}" for file in files]
            costs = [f"{found[step][unit]:.3g}" for step in ("evaluate", "compare") for unit in ("s", "GB")]
            print(f"| {' | '.join([f'{classes:,}', f'{count:,}', *costs, *sizes])} |")


if __name__ == "__main__":
    main()
