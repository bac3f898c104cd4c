"""Cold processes: how long until a stage begins its work, and until `pithy predict` has answered."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.corpora import encoded
from benchmarks.timing import Plan, Reach, Row, process
from pithy.systems.registry import RECIPES
from pithy.systems.saved import save
from pithy.text.view import View
from pithy.training.config import configure
from pithy.training.views import context_of, frame_of

SYSTEM = "transformer_f"
# Ends the process where the first step would begin.
UNTIL_FIRST_STEP = """
import os, runpy, sys
from pithy.training.loop import Trainer
Trainer._step = lambda *_: os._exit(0)
runpy.run_module(sys.argv.pop(1), run_name="__main__")
sys.exit("the stage ended without a step")
"""


def untrained(view: View, folder: Path) -> None:
    """A saved model with fresh weights: an answer takes it as long as a trained one."""
    recipe = RECIPES[SYSTEM]
    length = configure(SYSTEM, recipe).max_length
    torch.manual_seed(0)
    model = recipe.build(context_of(view, length))
    frame = frame_of(view, length)
    save(folder, model, recipe=recipe, frame=frame, labels=view.labels, tokenizer=view.tokenizer_json, facts={})


def rows(plan: Plan) -> list[Row]:
    """Seconds from the start of the process."""
    encoded_view = encoded(plan.scratch, 840, 200)  # as large as the pocket corpus
    work, model = encoded_view.parents[2], plan.scratch / "untrained"
    untrained(View.load(encoded_view), model)
    folders = [str(encoded_view), "data/pretrained/token", "data/models/unfinished"]
    stage = ["-c", UNTIL_FIRST_STEP, "pithy.stages.train", SYSTEM, *folders]
    answer = ["-m", "pithy.cli", "predict", str(model), "这家店的服务很好"]
    [training] = plan.alternate(lambda: process(stage, work))
    [predicting] = plan.alternate(lambda: process(answer, work))
    return [
        Row(f"train stage, {SYSTEM}: process start to first step", "s", training["s"], reach=Reach("≤", 2)),
        Row(f"pithy predict, {SYSTEM}: process start to answer", "s", predicting["s"]),
    ]
