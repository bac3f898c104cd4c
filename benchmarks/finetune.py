"""Fine-tuning MiniLM on film reviews: ours against the transformers library's Trainer as its scripts use it.

`python -m benchmarks.finetune` compares what both are worth after an epoch: dev accuracy, three seeds each, some 40
minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch

from benchmarks import minilm
from benchmarks.batches import MAX_TOKENS, pad_share, texts_of
from benchmarks.corpora import chosen
from benchmarks.corpora import minilm as minilm_view
from benchmarks.minilm import FAST
from benchmarks.plain_loop import examples_of
from benchmarks.timing import Measured, Plan, Reach, Row, SkippedError
from pithy.systems.registry import RECIPES
from pithy.text.view import Split, View
from pithy.training.config import TrainingConfig, configure
from pithy.training.loop import Trainer
from pithy.training.run import rate_of

BATCH = 32
Padding = Literal["to 128", "dynamic", "grouped by length"]
# Steps that settle the rate: a padded one costs the same on any texts, and fifty are what the Trainer sorts at once.
STEPS: dict[Padding, int] = {"to 128": 3, "dynamic": 6, "grouped by length": 50}
OURS = 25  # steps of ours, on texts drawn at random
REACH: dict[Padding, float] = {"to 128": 10, "dynamic": 4, "grouped by length": 2.3}


def settings() -> TrainingConfig:
    """One epoch at the recipe's own settings."""
    config = configure(minilm.SYSTEM, RECIPES[minilm.SYSTEM])
    return replace(config, epochs=1, batch_size=BATCH, max_length=minilm.LENGTH, max_tokens=MAX_TOKENS)


def examples(view: View, part: Split) -> list[dict[str, Any]]:
    """A split as the Trainer reads it."""
    room = minilm.LENGTH - len(view.prefix_ids) - len(view.suffix_ids)
    texts = ([*view.prefix_ids, *ids[:room].tolist(), *view.suffix_ids] for ids, _ in examples_of(part))
    pairs = zip(texts, part.labels, strict=True)
    return [{"input_ids": ids, "attention_mask": [1] * len(ids), "labels": int(label)} for ids, label in pairs]


def trainer(view: View, rows: list[dict[str, Any]], padding: Padding, folder: Path, seed: int = 0, **more: Any) -> Any:
    """The Trainer at its own defaults, our batch size and learning rate; `more` are arguments of it."""
    import transformers
    from transformers import AutoTokenizer, DataCollatorWithPadding, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained(view.checkpoint)
    whole: dict[str, Any] = {"padding": "max_length", "max_length": minilm.LENGTH} if padding == "to 128" else {}
    grouped: dict[str, Any] = {"train_sampling_strategy": "group_by_length"} if padding == "grouped by length" else {}
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=BATCH,
        learning_rate=rate_of(settings(), view),
        save_strategy="no",
        report_to="none",
        dataloader_pin_memory=False,  # without a GPU it only warns
        disable_tqdm=True,
        seed=seed,
        **grouped,
        **more,
    )
    made = transformers.Trainer(
        model=minilm.theirs(view),
        args=arguments,
        train_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer, **whole),
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def prepared(plan: Plan) -> View:
    """MiniLM's view of the texts. Raises SkippedError where the weights or what the Trainer needs are not here."""
    if find_spec("accelerate") is None:
        raise SkippedError("the Trainer needs accelerate: pip install accelerate")
    torch.set_num_threads(minilm.THREADS)
    return View.load(minilm_view(plan.scratch))


def throughput(plan: Plan, view: View) -> list[dict[str, Measured]]:
    """The machine's limits, our training, then the Trainer by `STEPS`: rates of whole runs of all in turn."""
    train, order = view.split("train"), np.random.default_rng(0)
    config, everything = settings(), examples(view, train)
    one = texts_of(view, chosen(view.split("dev"), [0]), minilm.LENGTH)

    def limits() -> dict[str, float]:
        return {name: minilm.limit(name) for name in {FAST, "fp32"}}  # emulated products take minutes

    def ours() -> dict[str, float]:
        count = min(BATCH * plan.size(OURS), len(train))
        texts = texts_of(view, chosen(train, order.choice(len(train), count, replace=False)), minilm.LENGTH)
        model = minilm.ours(view)
        loop = Trainer(model, texts, one, config, seed=0, rate=rate_of(config, view))
        start = perf_counter()
        loop.run()
        seconds = perf_counter() - start
        return {"texts/s": count / seconds, "GFLOP/s": minilm.training_flops(model, texts.lengths) / seconds / 1e9}

    def peer(padding: Padding) -> Callable[[], dict[str, float]]:
        def run() -> dict[str, float]:
            steps = plan.size(STEPS[padding])
            made = trainer(view, everything, padding, plan.scratch, max_steps=steps)
            start = perf_counter()
            made.train()
            return {"texts/s": BATCH * steps / (perf_counter() - start)}

        return run

    return plan.alternate(limits, ours, *map(peer, STEPS))


def padding_row(view: View) -> Row:
    """Percent of the tokens of an epoch that are padding, ours and those of the Trainer's groups."""
    from transformers.trainer_pt_utils import LengthGroupedSampler

    texts = texts_of(view, view.split("train"), minilm.LENGTH)

    def grouped(seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        order = list(LengthGroupedSampler(BATCH, lengths=texts.lengths.tolist(), generator=generator))
        parts = [texts.lengths[order[start : start + BATCH]] for start in range(0, len(order), BATCH)]
        return 100 * (1 - int(texts.lengths.sum()) / sum(len(part) * int(part.max()) for part in parts))

    mine = Measured(tuple(pad_share(texts, seed, BATCH) for seed in range(5)))
    other = Measured(tuple(map(grouped, range(5))))
    return Row(f"padding, batch {BATCH} / Trainer, grouped by length", "% of tokens", mine, other, Reach("≤", 3))


def rows(plan: Plan) -> list[Row]:
    """Throughput against each way to pad, our share of the machine's limit, the padding."""
    view = prepared(plan)
    limits, mine, *others = throughput(plan, view)
    shares = Measured(
        tuple(100 * ours / most for ours, most in zip(mine["GFLOP/s"].runs, limits[FAST].runs, strict=True))
    )
    share = shares.median / 100
    against = [
        Row(f"MiniLM, {view.corpus}, batch {BATCH} / Trainer, padded {padding}", "texts/s", mine["texts/s"], other)
        for padding, other in zip(STEPS, (found["texts/s"] for found in others), strict=True)
    ]
    return [
        *(
            replace(row, reach=Reach("≥", REACH[p], "ratio"), limit=share)
            for p, row in zip(STEPS, against, strict=True)
        ),
        Row(
            "the same, model FLOPs on real tokens",
            f"% of {FAST} limit",
            shares,
            reach=Reach("≥", 60),
            limit=share,
        ),
        Row(f"matrix products, {FAST} / fp32", "GFLOP/s", limits[FAST], limits["fp32"]),
        padding_row(view),
    ]


def accuracy(plan: Plan) -> list[Row]:
    """Dev accuracy after one epoch, ours and the Trainer's on groups, three seeds; too long for `rows`."""
    view = prepared(plan)
    train, dev, config = view.split("train"), view.split("dev"), settings()

    def ours(seed: int) -> float:
        model = minilm.ours(view)
        torch.manual_seed(seed)
        loop = Trainer(
            model,
            texts_of(view, train, minilm.LENGTH),
            texts_of(view, dev, minilm.LENGTH),
            config,
            seed=seed,
            rate=rate_of(config, view),
        )
        return 100 * loop.run().accuracy

    def peer(seed: int) -> float:
        made = trainer(view, examples(view, train), "grouped by length", plan.scratch, seed, num_train_epochs=1)
        made.train()
        logits = made.predict(examples(view, dev)).predictions
        return 100 * float((logits.argmax(1) == dev.labels).mean())

    mine, other = (Measured(tuple(map(run, range(3)))) for run in (ours, peer))
    gap = Measured((mine.median - other.median,))
    return [
        Row(f"MiniLM, {view.corpus}, dev accuracy after an epoch", "%", mine, other),
        Row("the same, ours less the Trainer's", "points", gap, reach=Reach("≥", -0.3)),
    ]


def main() -> None:
    """Print the comparison of accuracy."""
    from benchmarks.run import table

    with TemporaryDirectory(prefix="pithy-bench-") as scratch:
        print(table([row.record() for row in accuracy(Plan(Path(scratch)))]))


if __name__ == "__main__":
    main()
