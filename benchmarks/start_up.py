"""Cold processes: time until a stage begins its work, and until `epigram predict` has finished."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from benchmarks.corpora import change, encoded, minilm
from benchmarks.rows import Reach, Row
from benchmarks.timing import Plan, SkippedError, process
from epigram.inference.predictors.dataset_batches import data_spec_of, template_of
from epigram.models.serialization import save
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import configure

SYSTEM, TITLES = "transformer_f", 840  # as many titles as the embedded corpus has texts
SETTINGS = {"titles": TITLES}
# Ends the process at the point where the first step begins.
UNTIL_FIRST_STEP = """
import os, runpy, sys
from epigram.training.loop.trainer import Trainer
assert callable(Trainer.step)  # a method of another name would not be called
Trainer.step = lambda *_: os._exit(0)
runpy.run_module(sys.argv.pop(1), run_name="__main__")
sys.exit("the stage ended without a step")
"""


def untrained(view: View, folder: Path) -> None:
    """Save a model with fresh weights; a prediction takes as long as with a trained model."""
    recipe = RECIPES[SYSTEM]
    length = configure(SYSTEM, recipe).max_length
    torch.manual_seed(0)
    model = recipe.build(data_spec_of(view, length))
    frame = template_of(view, length)
    save(folder, model, recipe=recipe, frame=frame, labels=view.labels, tokenizer=view.tokenizer_json, facts={})


def until_first_step(plan: Plan, system: str, view: Path, reach: float) -> Row:
    """Return the seconds of a train stage up to its first step."""
    folders = [f"data/encoded/{view.name}", f"data/pretrained/{view.name}", "data/models/unfinished"]
    stage = ["-c", UNTIL_FIRST_STEP, "epigram.stages.train", system, *folders]
    [ours] = plan.alternate(lambda: process(stage, view.parents[2]))
    return Row(f"train stage, {system}: process start to first step", "s", ours["s"], reach=Reach("≤", reach))


def pretrained_rows(plan: Plan) -> list[Row]:
    """Return the same for a pretrained checkpoint, if there is one."""
    try:
        return [until_first_step(plan, "bert", minilm(plan.scratch), 4)]
    except SkippedError as why:
        print(f"start_up: no row of bert: {why}", file=sys.stderr)
        return []


def rows(plan: Plan) -> list[Row]:
    """Return the seconds from the start of each process."""
    view, model = encoded(plan, TITLES, 200), plan.scratch / "untrained"
    change(view.parents[2])  # another family of a tiny run may have changed its systems
    untrained(View.load(view), model)
    answer = ["-m", "epigram.cli", "predict", str(model), "这家店的服务很好"]
    [predicting] = plan.alternate(lambda: process(answer, view.parents[2]))
    return [
        until_first_step(plan, SYSTEM, view, 2),
        *([] if plan.tiny else pretrained_rows(plan)),
        Row(f"epigram predict, {SYSTEM}: process start to prediction", "s", predicting["s"]),
    ]
