"""A fine-tuned MiniLM as a graph of ONNX Runtime, in floats and in 8 bits, against itself: speed and answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks import minilm
from benchmarks.batches import texts_of
from benchmarks.corpora import chosen
from benchmarks.corpora import minilm as minilm_view
from benchmarks.timing import Measured, Plan, Reach, Row, Run
from pithy.inference.export import export
from pithy.inference.predictor import Predictor
from pithy.systems.registry import RECIPES
from pithy.systems.saved import load, save
from pithy.text.view import View
from pithy.training.batches import TextBatches
from pithy.training.config import configure
from pithy.training.loop import Trainer
from pithy.training.precision import Precision, lowered, multiplies_bf16, products
from pithy.training.predict import Predicted, predict
from pithy.training.run import rate_of
from pithy.training.views import batches_of, frame_of

TITLES, STEP = 1_500, 16  # of training: all, and of a step
BATCH = 32  # of an answer
# Ours in float32, its two graphs, and, where the processor multiplies in bfloat16, ours as it answers.
KINDS = ("eager", "fp32", "int8", *(["bf16"] if multiplies_bf16("cpu") else []))
NAMES = {"fp32": "fp32 graph", "int8": "int8 graph", "bf16": "ours in bfloat16"}


def tuned(plan: Plan, view: View) -> Path:
    """The folder of MiniLM after one epoch on some of the view's texts."""
    recipe, frame, part = RECIPES[minilm.SYSTEM], frame_of(view, minilm.LENGTH), view.split("train")
    config = configure(minilm.SYSTEM, recipe)
    config = replace(config, epochs=1, batch_size=STEP, threads=minilm.THREADS)
    part = chosen(part, np.random.default_rng(0).permutation(len(part))[: plan.size(TITLES)])
    train = texts_of(view, part, minilm.LENGTH)
    few = chosen(view.split("dev"), np.arange(50))  # the loop wants a development set; nothing is chosen by it here
    dev = texts_of(view, few, minilm.LENGTH)
    model, folder = minilm.ours(view), plan.scratch / "eager"
    Trainer(model, train, dev, config, seed=0, rate=rate_of(config, view)).run()
    save(folder, model, recipe=recipe, frame=frame, labels=view.labels, tokenizer=view.tokenizer_json, facts={})
    return folder


def timed(kind: str, model: Any, texts: TextBatches, rows: np.ndarray) -> Run:
    """One answer for the texts `rows` of `texts`."""
    tokens = texts.gather(rows)
    precision: Precision = "bf16" if kind == "bf16" else "fp32"

    @torch.inference_mode()
    def run() -> dict[str, float]:
        start = perf_counter()
        with products(precision, texts.device):
            model(tokens)
        return {"ms": 1000 * (perf_counter() - start)}

    run()  # the first one chooses kernels and takes memory
    return run


def speed_rows(plan: Plan, models: dict[str, Any], texts: TextBatches) -> list[Row]:
    """Each graph against the model itself: a batch of texts and one text; ours are `KINDS` in turn."""
    found = []
    rows = np.argsort(texts.lengths, kind="stable")[len(texts) // 2 :][:BATCH]  # of about the median length
    for work, picked, rounds in ((f"{len(rows)} texts", rows, 9), ("one text", rows[:1], 50)):
        eager, *others = plan.alternate(*(timed(kind, models[kind], texts, picked) for kind in KINDS), rounds=rounds)
        rates = [Measured(tuple(1000 * len(picked) / ms for ms in each["ms"].runs)) for each in (eager, *others)]
        reaches = {"int8": Reach("≥", 2, "ratio")}
        found += [
            Row(f"MiniLM, {NAMES[kind]}, {work} / our own fp32", "texts/s", rate, rates[0], reaches.get(kind))
            for kind, rate in zip(KINDS[1:], rates[1:], strict=True)
        ]
    return found


def answer_rows(said: dict[str, Predicted], labels: np.ndarray) -> list[Row]:
    """How far the graphs' answers are from the model's."""
    scores = {kind: 100 * predicted.score(labels) for kind, predicted in said.items()}
    apart = float(np.abs(said["fp32"].logits - said["eager"].logits).max())
    lost = Measured((scores["eager"] - scores["int8"],))
    return [
        Row("MiniLM, fp32 graph, largest difference of a logit", "", Measured((apart,)), reach=Reach("≤", 1e-4)),
        Row(f"MiniLM, int8 graph, lost of {scores['eager']:.1f} % on dev", "points", lost, reach=Reach("≤", 0.5)),
    ]


def rows(plan: Plan) -> list[Row]:
    """Speed of both graphs, and their answers on dev."""
    torch.set_num_threads(minilm.THREADS)
    view = View.load(minilm_view(plan.scratch))
    folder = tuned(plan, view)
    models = {"eager": load(folder).model}
    if "bf16" in KINDS:
        models["bf16"] = lowered(load(folder).model)
    for kind in ("fp32", "int8"):
        export(folder, plan.scratch / kind, int8=kind == "int8")
        models[kind] = Predictor(plan.scratch / kind).saved.model
    dev = view.split("dev")
    texts = batches_of(view, "dev", frame_of(view, minilm.LENGTH))
    said = {kind: predict(model, texts, precision="fp32") for kind, model in models.items() if kind != "bf16"}
    return [*speed_rows(plan, models, texts), *answer_rows(said, dev.labels)]
