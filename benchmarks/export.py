"""A fine-tuned MiniLM as an ONNX Runtime graph, in float32 and int8, against the PyTorch model: speed and accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks import minilm
from benchmarks.batches import texts_of
from benchmarks.configs import config_of
from benchmarks.corpora import chosen, drawn
from benchmarks.corpora import minilm as minilm_view
from benchmarks.intervals import difference
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan, Run, cores
from epigram.inference.onnx.export import export
from epigram.inference.onnx.quantize import write_quantized
from epigram.inference.predictors.dataset_batches import batches_of, template_of
from epigram.inference.predictors.runtimes import GraphModel
from epigram.models.batches import TextBatches
from epigram.models.precision import Precision, has_fast_bf16, matmul_precision, prepare_for_inference
from epigram.models.predict import Predicted, predict
from epigram.models.serialization import load, save
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

TEXTS, STEP = 1_500, 16  # of training: total, and per step
BATCH = 32  # texts of a prediction
SETTINGS = {"training_texts": TEXTS, "batch": BATCH, "max_length": minilm.LENGTH, "threads": "all"}
# Our model in float32, its two graphs and, on a CPU with bfloat16 instructions, our model in its default precision.
NAMES = {"eager": "our model, fp32", "fp32": "fp32 graph", "int8": "int8 graph", "bf16": "our model, bf16"}
ANSWERS = "bf16" if has_fast_bf16("cpu") else "eager"
KINDS = [kind for kind in NAMES if kind != "bf16" or has_fast_bf16("cpu")]


def tuned(plan: Plan, view: View) -> Path:
    """Return the folder of MiniLM fine-tuned for one epoch on some of the view's texts."""
    recipe, frame = RECIPES[minilm.SYSTEM], template_of(view, minilm.LENGTH)
    config = config_of(minilm.SYSTEM, view.checkpoint, epochs=1, batch_size=STEP)
    train = texts_of(view, drawn(view.split("train"), plan.size(TEXTS)), minilm.LENGTH)
    few = chosen(view.split("dev"), np.arange(50))  # the loop needs a development set; nothing is selected by it here
    dev = texts_of(view, few, minilm.LENGTH)
    model, folder = minilm.ours(view), plan.scratch / "eager"
    Trainer(model, label_objective(train, dev, config), seed=0).run()
    save(folder, model, recipe=recipe, frame=frame, labels=view.labels, tokenizer=view.tokenizer_json, facts={})
    return folder


def timed(kind: str, model: Any, texts: TextBatches, rows: np.ndarray) -> Run:
    """Return a run that predicts the texts `rows` of `texts` once."""
    tokens = texts.gather(rows)
    precision: Precision = "bf16" if kind == "bf16" else "fp32"

    @torch.inference_mode()
    def run() -> dict[str, float]:
        start = perf_counter()
        with matmul_precision(precision, texts.device):
            model(tokens)
        return {"texts/s": len(rows) / (perf_counter() - start)}

    run()  # warm-up: the first run selects kernels and allocates memory
    return run


def speed_rows(plan: Plan, models: dict[str, Any], texts: TextBatches) -> list[Row]:
    """Compare the speed of the int8 graph with that of the model's other formats, on a batch and on one text."""
    found = []
    rows = np.argsort(texts.lengths, kind="stable")[len(texts) // 2 :][:BATCH]  # of about the median length
    for work, picked, rounds in ((f"{len(rows)} texts", rows, 9), ("one text", rows[:1], 50)):
        runs: list[Callable[[], Any]] = [timed(kind, models[kind], texts, picked) for kind in KINDS]
        rates = {kind: each["texts/s"] for kind, each in zip(KINDS, plan.alternate(*runs, rounds=rounds), strict=True)}
        others = {NAMES[kind]: rates[kind] for kind in KINDS if kind != "int8"}
        reach = Reach("≥", 1.5, "ratio")
        found.append(Row(f"MiniLM, int8 graph, {work}", "texts/s", rates["int8"], others, reach, accuracy="int8"))
    return found


def predictions(models: dict[str, Any], texts: TextBatches) -> dict[str, Predicted]:
    """Return the predictions of every form of the model for `texts`."""
    precisions: dict[str, Precision] = {kind: "bf16" if kind == "bf16" else "fp32" for kind in models}
    return {kind: predict(model, texts, precision=precisions[kind]) for kind, model in models.items()}


def compared(found: dict[str, Predicted], labels: np.ndarray, about: str) -> dict[str, Any]:
    """Return the int8 graph's accuracy minus that of our model in its default precision, with an interval over rows."""
    right = {kind: (predicted.logits.argmax(1) == labels)[None] for kind, predicted in found.items()}
    return difference("int8", about, right["int8"], {NAMES[ANSWERS]: right[ANSWERS]})


def forms(plan: Plan, view: View) -> dict[str, Any]:
    """Return the model in every form."""
    folder = tuned(plan, view)
    models: dict[str, Any] = {"eager": load(folder).model}
    if "bf16" in KINDS:
        models["bf16"] = prepare_for_inference(load(folder).model)
    torch.set_num_threads(cores())
    export(folder, plan.scratch / "fp32")
    graph, small = plan.scratch / "fp32/model.onnx", plan.scratch / "int8.onnx"
    write_quantized(graph, small)  # `export` refuses it where it is not faster
    return models | {"fp32": GraphModel(graph, multi=False), "int8": GraphModel(small, multi=False)}


def rows(plan: Plan) -> list[Row]:
    """Return the speed of the int8 graph, and the differences of both graphs from the model."""
    view = View.load(minilm_view(plan.scratch))
    models, texts = forms(plan, view), batches_of(view, "dev", template_of(view, minilm.LENGTH))
    if plan.tiny:
        texts = texts.part(np.arange(BATCH))
    found = predictions({kind: models[kind] for kind in ("eager", "fp32", "int8")}, texts)
    gap = float(np.abs(found["fp32"].logits - found["eager"].logits).max())
    scores = {kind: 100 * predicted.score(view.split("dev").labels[: len(texts)]) for kind, predicted in found.items()}
    lost, points = Measured((scores["eager"] - scores["int8"],)), f"of {scores['eager']:.1f} % on dev"
    return [
        *speed_rows(plan, models, texts),
        Row("MiniLM, fp32 graph, largest difference of a logit", "", Measured((gap,)), reach=Reach("≤", 1e-4)),
        Row(f"MiniLM, int8 graph, lost {points}", "points", lost, reach=Reach("≤", 0.2)),
    ]
