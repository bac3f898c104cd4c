"""Fine-tuning at BERT-base size in bf16: our loop against transformers' Trainer, and its share of the GPU's peak.

The Trainer runs with the defaults of its example scripts (8 texts per batch, fp32, each text padded to L), and with our
batch size in bf16: with the same padding, with batches padded to their longest text, and grouped by length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.gpu_data import CLASSES, DEVICE, PAD, bert, bert_config, peak, peak_memory, seconds, split, texts_of
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan, Run
from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import has_fast_bf16
from epigram.nn.layers.types import Tokens
from epigram.text.dataset.encoded_dataset import Split
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

LENGTHS = (32, 64, 128)
TOKENS = 16_384  # per batch, ours
STEPS = 100
SETTINGS = {"tokens": TOKENS, "lengths": list(LENGTHS), "steps": STEPS}
SHARES = {32: 40, 128: 50}  # wanted percentage of the GPU's peak, by length
DEFAULT_BATCH = 8  # texts, of the Trainer
MEMORY_PEER = "Trainer, bf16, our batch, grouped by length"
BF16 = has_fast_bf16(DEVICE.type)  # false on a CPU that emulates it: the tiny run would take minutes


@dataclass(frozen=True)
class Settings:
    """Batch size (texts), padding and precision of the Trainer, and its number of dataloader workers."""

    batch: int
    padding: Literal["to L", "to the longest", "grouped by length"]
    bf16: bool = BF16
    workers: int = 0


def peers(batch: int) -> dict[str, Settings]:
    """Return the Trainer's settings by name: its scripts' defaults, then those with our batch size."""
    ours = "Trainer, bf16, our batch"
    return {
        "Trainer at its scripts' defaults": Settings(DEFAULT_BATCH, "to L", bf16=False),
        f"{ours}, padded to L": Settings(batch, "to L"),
        f"{ours}, dynamic padding": Settings(batch, "to the longest"),
        f"{ours}, grouped by length": Settings(batch, "grouped by length"),
        f"{ours}, grouped by length, 2 dataloader workers": Settings(batch, "grouped by length", workers=2),
    }


class TimedBatches(TextBatches):
    """Batches that record when the device starts and ends gathering each."""

    spans: list[tuple[Any, Any]]

    def gather(self, rows: Rows) -> Tokens:
        """Gather like the base class and record the time."""
        start = _mark()
        tokens = super().gather(rows)
        self.spans.append((start, _mark()))
        return tokens

    def spent(self) -> float:
        """Return the total seconds of all spans."""
        if DEVICE.type == "cuda":
            return float(sum(start.elapsed_time(end) for start, end in self.spans)) / 1000
        return float(sum(end - start for start, end in self.spans))


def _mark() -> Any:
    if DEVICE.type != "cuda":
        return perf_counter()
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def flops(model: Any, part: Split) -> float:
    """Return the FLOPs of a forward and backward pass over the texts' real tokens, without embeddings and heads.

    Six per weight and token, and 12 · N · D · l² for the two matrix products of attention over l tokens in N layers.
    """
    blocks = model.encoder.blocks
    weights = sum(p.numel() for p in blocks.parameters())
    lengths = part.ids.lengths.astype(np.float64)
    return float(6 * weights * lengths.sum() + 12 * len(blocks) * model.encoder.width * (lengths**2).sum())


def our_config(length: int, batch: int) -> TrainingConfig:
    """Return the settings of a training of one epoch; the default precision is bf16 where that is fast."""
    tokens = batch * length
    return TrainingConfig(epochs=1, batch_size=batch, max_tokens=tokens, learning_rate=5e-5)


def train_ours(model: nn.Module, train: TextBatches, dev: TextBatches, config: TrainingConfig) -> None:
    """Run a whole training: one epoch, an evaluation on a few dev texts, loading of the best weights."""
    Trainer(model, label_objective(train, dev, config), seed=0).run()


def theirs(plan: Plan, part: Split, length: int, how: Settings) -> Any:
    """Return transformers' Trainer on the texts."""
    from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, TrainingArguments
    from transformers import Trainer as TheirTrainer

    sizes = {name: value for name, value in bert_config(length, tiny=plan.tiny).items() if name != "model_type"}
    config = BertConfig(**{**sizes, "pad_token_id": PAD, "num_labels": CLASSES})
    arguments = TrainingArguments(
        output_dir=str(plan.scratch / "trainer"),
        per_device_train_batch_size=how.batch,
        num_train_epochs=1,
        bf16=how.bf16,
        train_sampling_strategy="group_by_length" if how.padding == "grouped by length" else "random",
        dataloader_num_workers=how.workers,
        logging_nan_inf_filter=False,  # it reads every loss and so waits for the GPU in each step
        save_strategy="no",
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=DEVICE.type == "cpu",
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # one GPU, like our loop
    rows, collate = examples(part), partial(padded, length=length if how.padding == "to L" else None)
    trainer = TheirTrainer(BertForSequenceClassification(config), arguments, collate, train_dataset=rows)
    trainer.remove_callback(PrinterCallback)
    return trainer


def examples(part: Split) -> list[dict[str, Any]]:
    """Return each text and its label in the format of the Trainer, without padding."""
    texts = (torch.tensor(ids, dtype=torch.int64) for ids in part.ids)
    return [{"input_ids": ids, "labels": label} for ids, label in zip(texts, part.labels.tolist(), strict=True)]


def padded(rows: list[dict[str, Any]], length: int | None) -> dict[str, Tensor]:
    """Return a batch of texts (B, L), padded to `length` tokens, or to the longest of them if None."""
    ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True, padding_value=PAD)
    if length is not None:
        ids = nn.functional.pad(ids, (0, length - ids.shape[1]), value=PAD)
    labels = torch.tensor([row["labels"] for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def length_rows(plan: Plan, length: int) -> list[Row]:
    """Return texts per second, share of the peak and time on data at one length."""
    batch, part = texts_for(plan, length)
    few = split(DEFAULT_BATCH * (2 if plan.tiny else 2 * STEPS), length)  # for the defaults, which are slow
    model, train, dev = bert(length, tiny=plan.tiny), texts_of(part, length), texts_of(split(8, length, seed=1), length)
    config = our_config(length, batch)
    kinds = peers(batch)
    trainers = [theirs(plan, few if how.batch == DEFAULT_BATCH else part, length, how) for how in kinds.values()]
    limit, origin = peak(tiny=plan.tiny)

    def ours() -> dict[str, float]:
        taken = seconds(lambda: train_ours(model, train, dev, config))
        return {"texts/s": len(part) / taken, "%": 100 * flops(model, part) / taken / limit}

    def peer(trainer: Any) -> dict[str, float]:
        return {"texts/s": trainer.train().metrics["train_samples_per_second"]}  # without its set-up

    works: list[Run] = [ours, *(partial(peer, each) for each in trainers)]
    for run in works:
        run()  # warm-up: the first runs select kernels and allocate memory
    mine, *others = plan.alternate(*works)
    rates = {name: found["texts/s"] for name, found in zip(kinds, others, strict=True)}
    work, share = f"BERT base, texts of {length // 2} to {length} tokens", SHARES.get(length)
    return [
        Row(work, "texts/s", mine["texts/s"], rates, Reach("≥", 3, "ratio")),
        Row(f"{work}, FLOPs on real tokens over {origin}", "%", mine["%"], reach=Reach("≥", share) if share else None),
        data_row(work, model, part, dev, config),
    ]


def texts_for(plan: Plan, length: int) -> tuple[int, Split]:
    """Return our batch size and the texts of one epoch."""
    batch, steps = (4, 2) if plan.tiny else (TOKENS // length, STEPS)
    return batch, split(batch * steps, length)


def data_row(work: str, model: nn.Module, part: Split, dev: TextBatches, config: TrainingConfig) -> Row:
    """Return the share of a run in which the device gathers batches or waits for them."""
    timed = texts_of(part, config.max_tokens // config.batch_size, TimedBatches)
    assert isinstance(timed, TimedBatches)
    timed.spans = []
    taken = seconds(lambda: train_ours(model, timed, dev, config))
    return Row(f"{work}, time on data", "%", Measured((100 * timed.spent() / taken,)), reach=Reach("≤", 3))


def memory_of(plan: Plan, length: int, whose: Literal["ours", "theirs"]) -> float:
    """Return the peak memory (GB) of training with our batch size in bf16; call it in a separate process."""
    batch, part = texts_for(plan, length)
    if whose == "theirs":
        theirs(plan, part, length, peers(batch)[MEMORY_PEER]).train()
    else:
        dev = texts_of(split(8, length, seed=1), length)
        train_ours(bert(length, tiny=plan.tiny), texts_of(part, length), dev, our_config(length, batch))
    return peak_memory()


def rows(plan: Plan) -> list[Row]:
    """Return the rows of every length, and the memory of the longest."""
    lengths = tuple(SHARES) if plan.tiny else LENGTHS
    found = [row for length in lengths for row in length_rows(plan, length)]
    ours, peer = (Measured((plan.apart(memory_of, plan, LENGTHS[-1], whose),)) for whose in ("ours", "theirs"))
    work = f"BERT base, {TOKENS:,} tokens a batch, peak memory"
    return [*found, Row(work, "GB", ours, {MEMORY_PEER: peer})]
