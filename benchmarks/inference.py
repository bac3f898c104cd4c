"""Predictions of a MiniLM classifier: many texts, one text, a cold process; against `inference_peers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle
from pathlib import Path
from time import perf_counter

import torch

from benchmarks import minilm
from benchmarks.corpora import ENGLISH, NEWS, titles
from benchmarks.corpora import minilm as minilm_view
from benchmarks.inference_peers import Peer, Pipeline, peers
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan, cores, process
from epigram.inference.predictors.dataset_batches import template_of
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import save
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View

TEXTS = 1_000
SINGLES, ROUNDS = 50, 3
BATCHES = (16, 32, 64)  # batch sizes of the peers, with texts sorted by length
SETTINGS = {"texts": TEXTS, "max_length": minilm.LENGTH, "single_texts": SINGLES, "threads": "all"}
COLD = """
import sys
from transformers import pipeline
print(pipeline("text-classification", model=sys.argv[1])(sys.argv[2]))
"""
Rates = dict[str, Measured]


def mixed(scratch: Path, count: int) -> list[str]:
    """Return film reviews and the longer news texts alternately, each in random order."""
    sources = dict.fromkeys([ENGLISH, NEWS])
    frames = [titles(scratch, source).sample(fraction=1.0, shuffle=True, seed=0) for source in sources]
    columns = [frame["text"].to_list()[:count] for frame in frames]
    texts = cycle(text for row in zip(*columns, strict=False) for text in row)
    return [next(texts) for _ in range(count)]


def saved(view: View, scratch: Path) -> tuple[Path, Path]:
    """Save the same classifier in our format and in transformers'; only their untrained heads differ."""
    from transformers import AutoTokenizer

    recipe, folder, theirs = RECIPES[minilm.SYSTEM], scratch / "ours", scratch / "theirs"
    frame = template_of(view, minilm.LENGTH)
    model, tokenizer = minilm.ours(view), view.tokenizer_json
    save(folder, model, recipe=recipe, frame=frame, labels=view.labels, tokenizer=tokenizer, facts={})
    minilm.theirs(view).save_pretrained(theirs)
    AutoTokenizer.from_pretrained(view.checkpoint).save_pretrained(theirs)
    return folder, theirs


def rate(count: int, work: Callable[[], object]) -> dict[str, float]:
    """Return texts per second of `work`, which predicts `count` texts."""
    start = perf_counter()
    work()
    return {"texts/s": count / (perf_counter() - start)}


def sizes(name: str, names: Iterable[str]) -> tuple[int, ...]:
    """Return the batch sizes of a peer: all, or one for the float32 of a program that is also there in bfloat16."""
    precisions = [other for other in names if other.startswith(name.removesuffix("fp32"))]
    return BATCHES if precisions == [name] else (32,)


def many(plan: Plan, predictor: Predictor, others: dict[str, Peer], texts: list[str]) -> tuple[Measured, Rates]:
    """Return texts per second: ours in the given order, the peers' sorted by length at each batch size."""
    ordered = sorted(texts, key=len)
    works: dict[str, Callable[[], object]] = {
        f"{name}, sorted, batch {size}": partial(each.answer, ordered, batch_size=size)
        for name, each in others.items()
        for size in sizes(name, others)
    }
    ours: Callable[[], object] = partial(predictor.probabilities, texts)
    for work in (ours, *works.values()):
        work()  # warm-up at the same shapes: compilation, and OpenVINO's kernels for each shape
    timed = [partial(rate, len(texts), work) for work in (ours, *works.values())]
    mine, *theirs = plan.alternate(*timed, rounds=ROUNDS)
    return mine["texts/s"], {name: found["texts/s"] for name, found in zip(works, theirs, strict=True)}


def single(plan: Plan, predictor: Predictor, others: dict[str, Peer], texts: list[str]) -> tuple[Measured, Rates]:
    """Return milliseconds per text for one text at a time, with the same texts on all sides.

    A side predicts all texts, untimed and timed, before the next side begins: waiting threads of the side before it
    would slow down its first texts.
    """

    def one(answer: Callable[[str], object]) -> Callable[[], dict[str, float]]:
        def run() -> dict[str, float]:
            for text in texts[:SINGLES]:
                answer(text)  # warm-up at the same shapes
            found = rate(len(texts[:SINGLES]), lambda: [answer(text) for text in texts[:SINGLES]])
            return {"ms": 1000 / found["texts/s"]}

        return run

    works = [one(each.answer) for each in others.values()]
    mine, *theirs = plan.alternate(one(lambda text: predictor.predict([text])), *works, rounds=ROUNDS)
    return mine["ms"], {name: found["ms"] for name, found in zip(others, theirs, strict=True)}


def rows(plan: Plan) -> list[Row]:
    """Return texts per second, milliseconds of one text, seconds of a cold process."""
    torch.set_num_threads(cores())
    view = View.load(minilm_view(plan.scratch))
    folder, theirs = saved(view, plan.scratch)
    texts = mixed(plan.scratch, plan.size(TEXTS))
    predictor = Predictor(folder)
    programs: dict[str, Peer] = (
        {"pipeline(), fp32": Pipeline(theirs, "fp32")} if plan.tiny else peers(theirs, plan.scratch)
    )
    work = minilm.flops(predictor.saved.model, predictor.batches(texts).lengths) / len(texts) / 1e9  # GFLOP per text
    mine, others = many(plan, predictor, programs, texts)
    one, each = single(plan, predictor, programs, texts)
    ours = ["-m", "epigram.cli", "predict", str(folder), texts[0]]
    peer = ["-c", COLD, str(theirs), texts[0]]
    cold = plan.alternate(lambda: process(ours, plan.scratch), lambda: process(peer, plan.scratch))
    most = minilm.limit(plan, minilm.FAST)
    shares = (work * mine.median / most, work / (one.median / 1000) / most)
    return [
        Row(f"MiniLM, predictions of {len(texts):,} texts", "texts/s", mine, others, Reach("≥", 2, "ratio"), shares[0]),
        Row("MiniLM, prediction of one text", "ms", one, each, Reach("≤", 0.5, "ratio"), shares[1]),
        Row(
            "epigram predict, MiniLM, cold",
            "s",
            cold[0]["s"],
            {"pipeline(), cold": cold[1]["s"]},
            Reach("≤", 0.6, "ratio"),
        ),
    ]
