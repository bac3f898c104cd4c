"""Peer of the fine-tuning benchmark: transformers' Trainer at its best known settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import minilm
from benchmarks.plain_loop import examples_of
from epigram.text.dataset.encoded_dataset import Split, View


@dataclass(frozen=True)
class Settings:
    """Batching of the Trainer, its precision and its number of dataloader workers."""

    grouped: bool
    bf16: bool
    workers: int = 0

    @property
    def name(self) -> str:
        """Name of the peer in the results: the Trainer and its settings."""
        order = "grouped by length" if self.grouped else "dynamic padding"
        workers = f", {self.workers} dataloader workers" if self.workers else ""
        return f"transformers Trainer, {order}, {'bf16' if self.bf16 else 'fp32'}{workers}"


def examples(view: View, part: Split) -> list[dict[str, Any]]:
    """Return a split in the format of the Trainer."""
    room = minilm.LENGTH - len(view.prefix_ids) - len(view.suffix_ids)
    texts = ([*view.prefix_ids, *ids[:room].tolist(), *view.suffix_ids] for ids, _ in examples_of(part))
    pairs = zip(texts, part.labels, strict=True)
    return [{"input_ids": ids, "attention_mask": [1] * len(ids), "labels": int(label)} for ids, label in pairs]


def trainer(view: View, model: Any, rows: list[dict[str, Any]], how: Settings, folder: Path, **more: Any) -> Any:
    """Return a Trainer on `rows`, for one epoch if not set; `more` are further TrainingArguments."""
    import transformers
    from transformers import AutoTokenizer, DataCollatorWithPadding, TrainingArguments

    grouped: dict[str, Any] = {"train_sampling_strategy": "group_by_length"} if how.grouped else {}
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        bf16=how.bf16,
        use_cpu=True,
        dataloader_num_workers=how.workers,
        dataloader_pin_memory=False,  # without a GPU it only causes a warning
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **grouped,
        **{"num_train_epochs": 1, **more},
    )
    made = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(view.checkpoint)),
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def predicted(made: Any, rows: list[dict[str, Any]]) -> NDArray[np.int64]:
    """Return the predicted class of each row, (N,), in the order of `rows`.

    A Trainer that groups by length also draws the order of the texts that it predicts, and returns them in this order.
    """
    made.args.train_sampling_strategy = "sequential"
    return np.asarray(made.predict(rows).predictions.argmax(1))


def run(
    view: View, split: tuple[list[dict[str, Any]], list[dict[str, Any]]], how: Settings, folder: Path, **more: Any
) -> float:
    """Return the seconds of an epoch on the timed texts, after an epoch on the warm-up texts."""
    warm_up, timed = split
    model = minilm.theirs(view)
    trainer(view, model, warm_up, how, folder, **more).train()
    made = trainer(view, model, timed, how, folder, **more)
    start = perf_counter()
    made.train()
    return perf_counter() - start
