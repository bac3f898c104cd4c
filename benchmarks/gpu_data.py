"""Tools of the GPU benchmarks: synthetic encoded texts, models without a checkpoint, timing, peak FLOP/s."""

from __future__ import annotations

from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any

import numpy as np
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.devices import default_device
from epigram.models.recipe import ENCODERS, HEADS
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import Split

VOCABULARY, CLASSES, PAD, UNK = 21_128, 10, 0, 1  # vocabulary size of the Chinese BERT
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
# dense bf16 with fp32 accumulation, TFLOP/s, as published; the first name contained in the GPU's name applies
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121}
DEVICE = default_device()


def split(rows: int, length: int, *, shortest: float = 0.5, seed: int = 0) -> Split:
    """Return texts of `shortest` · `length` to `length` tokens; the class determines a quarter of the tokens."""
    random = np.random.default_rng(seed)
    counts = random.integers(max(1, int(shortest * length)), length + 1, rows)
    labels = random.integers(0, CLASSES, rows)
    ids = random.integers(CLASSES + 2, VOCABULARY, counts.sum())
    told = random.random(len(ids)) < 0.25
    return Split(
        ids=Ragged.from_lengths(np.where(told, 2 + np.repeat(labels, counts), ids).astype(np.int32), counts),
        labels=labels,
        rows=np.arange(rows),
        in_train=None,
    )


def texts_of(part: Split, length: int, kind: type[TextBatches] = TextBatches) -> TextBatches:
    """Return a split on the device, in the format of our loop."""
    return kind(
        part.ids,
        prefix=[],
        suffix=[],
        max_length=length,
        pad_id=PAD,
        unk_id=UNK,
        labels=part.labels,
        device=DEVICE,
    )


def context(length: int) -> DataSpec:
    """Return the model settings that the synthetic data determine."""
    return DataSpec(vocabulary=VOCABULARY, classes=CLASSES, max_length=length, pos_weight=torch.ones(VOCABULARY))


def bert_config(length: int, *, tiny: bool) -> dict[str, Any]:
    """Return the config of BERT base, or of a small BERT if `tiny`, in the format of the transformers library."""
    sizes = SMALL if tiny else BASE
    return {"model_type": "bert", "vocab_size": VOCABULARY, "max_position_embeddings": length, **sizes}


def bert(length: int, *, tiny: bool) -> NeuralClassifier:
    """Return the system `bert` with fresh weights."""
    torch.manual_seed(0)
    data = context(length)
    encoder = PretrainedConfig(backbone=bert_config(length, tiny=tiny)).build(data)
    return NeuralClassifier(encoder, LinearConfig(pool="first", dropout=0.1).build(data, encoder)).to(DEVICE)


def system(name: str, length: int) -> NeuralClassifier:
    """Return a registered system with fresh weights; its settings are not validated, so pydantic is not needed."""
    torch.manual_seed(0)
    data, recipe = context(length), RECIPES[name]
    encoder_settings, head_settings = dict(recipe.encoder), dict(recipe.head)
    encoder = ENCODERS[encoder_settings.pop("kind")](**encoder_settings).build(data)
    return NeuralClassifier(encoder, HEADS[head_settings.pop("kind")](**head_settings).build(data, encoder)).to(DEVICE)


def wait() -> None:
    """Wait until the device has finished its work."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes, including its work on the device."""
    wait()
    start = perf_counter()
    work()
    wait()
    return perf_counter() - start


def peak_memory() -> float:
    """Return the peak memory of this process in GB: GPU memory if there is a GPU."""
    if DEVICE.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e9
    return getrusage(RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def device_name() -> str:
    """Return the GPU's name, or "cpu"."""
    return torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"


def peak(*, tiny: bool) -> tuple[float, str]:
    """Return the FLOP/s of dense bf16 products and their source: published, or measured on products of 8192 × 8192."""
    for name, teraflops in PEAKS.items():
        if name.lower() in device_name().lower():
            return teraflops * 1e12, "the maker's peak"
    size, repeats = (256, 2) if tiny else (8192, 20)
    a = torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16)
    a @ a
    best = min(seconds(lambda: [a @ a for _ in range(repeats)]) for _ in range(5))
    return 2 * size**3 * repeats / best, f"measured products of {size} × {size}"
