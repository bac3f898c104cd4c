"""Fine-tuning at BERT-base size in bf16: our loop against transformers' Trainer, and its share of the GPU's peak.

The Trainer pads every text to L, as its example scripts do. It runs with the scripts' defaults (8 texts per batch,
fp32) and with our batch size in bf16.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from benchmarks.gpu_data import CLASSES, DEVICE, PAD, bert, bert_config, peak, peak_memory, seconds, split, texts_of
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan, apart
from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import has_fast_bf16
from epigram.nn.layers.types import Tokens
from epigram.text.encoded_dataset import Split
from epigram.training.config import TrainingConfig
from epigram.training.objectives.label_objective import label_objective
from epigram.training.trainer import Trainer

LENGTHS = (32, 64, 128)
TOKENS = 16_384  # per batch, ours
STEPS = 100
SETTINGS = {"tokens": TOKENS, "lengths": list(LENGTHS), "steps": STEPS}
DEFAULT_BATCH = 8  # texts, of the Trainer
BF16 = has_fast_bf16(DEVICE.type)  # false on a CPU that emulates it: the tiny run would take minutes


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


def theirs(plan: Plan, part: Split, length: int, *, batch: int, bf16: bool) -> Any:
    """Return transformers' Trainer on the texts, padded to `length`."""
    from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, TrainingArguments
    from transformers import Trainer as TheirTrainer

    sizes = {name: value for name, value in bert_config(length, tiny=plan.tiny).items() if name != "model_type"}
    config = BertConfig(**{**sizes, "pad_token_id": PAD, "num_labels": CLASSES})
    arguments = TrainingArguments(
        output_dir=str(plan.scratch / "trainer"),
        per_device_train_batch_size=batch,
        num_train_epochs=1,
        bf16=bf16,
        save_strategy="no",
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=DEVICE.type == "cpu",
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # one GPU, like our loop
    trainer = TheirTrainer(BertForSequenceClassification(config), arguments, train_dataset=examples(part, length))
    trainer.remove_callback(PrinterCallback)
    return trainer


def examples(part: Split, length: int) -> Any:
    """Return each text padded to `length`, like a tokenizer with `padding="max_length"`."""
    ids, valid = np.full((len(part), length), PAD), np.zeros((len(part), length), np.int64)
    for row, text in enumerate(part.ids):
        ids[row, : len(text)], valid[row, : len(text)] = text, 1
    tensors = zip(torch.from_numpy(ids), torch.from_numpy(valid), part.labels.tolist(), strict=True)
    return [{"input_ids": text, "attention_mask": mask, "labels": label} for text, mask, label in tensors]


def length_rows(plan: Plan, length: int) -> list[Row]:
    """Return texts per second, share of the peak and time on data at one length."""
    batch, part = texts_for(plan, length)
    few = split(DEFAULT_BATCH * (2 if plan.tiny else 2 * STEPS), length)
    model, train, dev = bert(length, tiny=plan.tiny), texts_of(part, length), texts_of(split(8, length, seed=1), length)
    config = our_config(length, batch)
    default = theirs(plan, few, length, batch=DEFAULT_BATCH, bf16=False)
    same = theirs(plan, part, length, batch=batch, bf16=BF16)
    limit, origin = peak(tiny=plan.tiny)

    def ours() -> dict[str, float]:
        taken = seconds(lambda: train_ours(model, train, dev, config))
        return {"texts/s": len(part) / taken, "%": 100 * flops(model, part) / taken / limit}

    def peer(trainer: Any) -> dict[str, float]:
        return {"texts/s": trainer.train().metrics["train_samples_per_second"]}  # without its set-up

    ours(), peer(default), peer(same)  # warm-up: the first runs select kernels and allocate memory
    mine, first, second = plan.alternate(ours, lambda: peer(default), lambda: peer(same))
    work, rate = f"BERT base, texts of {length // 2} to {length} tokens", mine["texts/s"]
    peers = {"Trainer at its scripts' defaults": first["texts/s"], "Trainer, bf16, our batch": second["texts/s"]}
    share, reach = f"{work}, FLOPs on real tokens over {origin}", Reach("≥", 50) if length == LENGTHS[-1] else None
    return [
        Row(work, "texts/s", rate, peers, Reach("≥", 3, "ratio")),
        Row(share, "%", mine["%"], reach=reach),
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
        theirs(plan, part, length, batch=batch, bf16=BF16).train()
    else:
        dev = texts_of(split(8, length, seed=1), length)
        train_ours(bert(length, tiny=plan.tiny), texts_of(part, length), dev, our_config(length, batch))
    return peak_memory()


def rows(plan: Plan) -> list[Row]:
    """Return the rows of every length, and the memory of the longest."""
    lengths = LENGTHS[-1:] if plan.tiny else LENGTHS
    found = [row for length in lengths for row in length_rows(plan, length)]
    ours, peer = (Measured((apart(memory_of, plan, LENGTHS[-1], whose),)) for whose in ("ours", "theirs"))
    work = f"BERT base, {TOKENS:,} tokens a batch, peak memory"
    return [*found, Row(work, "GB", ours, {"Trainer, bf16, our batch": peer})]
