"""Answers of a fine-tuned MiniLM: many texts at once, one text, a cold process; against the library's pipeline()."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import torch

from benchmarks import minilm
from benchmarks.corpora import ENGLISH, MIRROR, titles
from benchmarks.corpora import minilm as minilm_view
from benchmarks.timing import Plan, Reach, Row, process
from pithy.inference.predictor import Predictor
from pithy.systems.registry import RECIPES
from pithy.systems.saved import save
from pithy.text.view import View
from pithy.training.views import frame_of

TEXTS = 1_000  # of the 10,000 that a user has
PEER_TEXTS = 400  # the library's pipeline takes them as they come, at one rate
BATCH = 32
COLD = """
import sys
from transformers import pipeline
print(pipeline("text-classification", model=sys.argv[1])(sys.argv[2]))
"""


def mixed(scratch: Path, count: int) -> list[str]:
    """Film reviews and the longer AG news in turn, in a random order."""
    sources = [ENGLISH, "agnews_43k"] if MIRROR else [ENGLISH]
    frames = [titles(scratch, source).sample(fraction=1.0, shuffle=True, seed=0) for source in sources]
    columns = [frame["text"].to_list()[:count] for frame in frames]
    return [text for row in zip(*columns, strict=False) for text in row][:count]


def saved(view: View, scratch: Path) -> tuple[Path, Path]:
    """The same classifier as our folder and as one of the library's; only their heads, untrained, differ."""
    recipe, folder, theirs = RECIPES[minilm.SYSTEM], scratch / "ours", scratch / "theirs"
    frame = frame_of(view, minilm.LENGTH)
    save(
        folder,
        minilm.ours(view),
        recipe=recipe,
        frame=frame,
        labels=view.labels,
        tokenizer=view.tokenizer_json,
        facts={},
    )
    from transformers import AutoTokenizer

    minilm.theirs(view).save_pretrained(theirs)
    AutoTokenizer.from_pretrained(view.checkpoint).save_pretrained(theirs)
    return folder, theirs


def rows(plan: Plan) -> list[Row]:
    """Texts per second, milliseconds of one, seconds of a cold process."""
    from transformers import pipeline

    torch.set_num_threads(minilm.THREADS)
    view = View.load(minilm_view(plan.scratch))
    folder, theirs = saved(view, plan.scratch)
    texts = mixed(plan.scratch, plan.size(TEXTS))
    few = texts[: plan.size(PEER_TEXTS)]
    predictor, library = Predictor(folder), pipeline("text-classification", model=str(theirs))
    cut = {"truncation": True, "max_length": minilm.LENGTH}
    singles = {"ours": iter(texts * 50), "peer": iter(texts * 50)}

    model, lengths = predictor.saved.model, predictor.batches(texts).lengths
    work = minilm.flops(model, lengths) / len(texts) / 1e9  # GFLOP of a text

    def many() -> dict[str, float]:
        start = perf_counter()
        predictor.probabilities(texts)
        return {"texts/s": len(texts) / (perf_counter() - start)}

    def many_peer() -> dict[str, float]:
        start = perf_counter()
        library(few, batch_size=BATCH, **cut)
        return {"texts/s": len(few) / (perf_counter() - start)}

    def one() -> dict[str, float]:
        text, start = next(singles["ours"]), perf_counter()
        predictor.answer([text])
        return {"ms": 1000 * (perf_counter() - start)}

    def one_peer() -> dict[str, float]:
        text, start = next(singles["peer"]), perf_counter()
        library(text, **cut)
        return {"ms": 1000 * (perf_counter() - start)}

    one(), one_peer()  # the first calls choose kernels and take memory
    single = plan.alternate(one, one_peer, rounds=50)
    limits, mine, other = plan.alternate(lambda: {"GFLOP/s": minilm.limit(minilm.FAST)}, many, many_peer)
    ours = ["-m", "pithy.cli", "predict", str(folder), texts[0]]
    peer = ["-c", COLD, str(theirs), texts[0]]
    cold = plan.alternate(lambda: process(ours, plan.scratch), lambda: process(peer, plan.scratch))
    most = limits["GFLOP/s"].median
    shares = (work * mine["texts/s"].median / most, work / (single[0]["ms"].median / 1000) / most)
    many_texts, against = f"{len(texts):,} texts", f"pipeline(batch_size={BATCH}) on {len(few):,}"
    faster, half, colder = Reach("≥", 5, "ratio"), Reach("≤", 0.5, "ratio"), Reach("≤", 0.6, "ratio")
    return [
        Row(f"MiniLM, {many_texts} / {against}", "texts/s", mine["texts/s"], other["texts/s"], faster, shares[0]),
        Row("MiniLM, one text / pipeline()", "ms", single[0]["ms"], single[1]["ms"], half, shares[1]),
        Row("pithy predict, MiniLM, cold / pipeline(), cold", "s", cold[0]["s"], cold[1]["s"], colder),
    ]
