"""Layers forward and backward: our attentions over plain ones, the semantic perceptron over a Transformer layer.

The sizes are those of `transformer_f`, of MiniLM and of `dmsp`; the precision, for both, is that of training.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.timing import Measured, Plan, Reach, Row
from pithy.encoders.attention import install
from pithy.layers.attention import DotProductAttention
from pithy.layers.correlation import CorrelationAttention
from pithy.layers.hook_fusion import fuse
from pithy.layers.masking import key_mask
from pithy.layers.semantic_perceptron import SemanticPerceptron
from pithy.training.precision import products

TOKENS = 4_096  # of a batch, padding included
WIDTH, DROPOUT, DEPTH = 128, 0.2, 6
NARROW, HIDDEN = 64, 512  # of dmsp
BERT: dict[str, Any] = {
    "hidden_size": 384,
    "num_attention_heads": 12,
    "num_hidden_layers": 1,
    "vocab_size": 2,
}  # of MiniLM
PASSES = 10
Layer = Callable[[Tensor], Tensor]


def batch(length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors (B, L, D), mask and part-of-speech weights (B, L) of texts from 0.9 L to L tokens, as batches have."""
    torch.manual_seed(0)
    size = TOKENS // length
    lengths = torch.randint(int(0.9 * length), length + 1, (size, 1))
    valid = torch.arange(length) < lengths
    weight = torch.where(torch.rand(size, length) < 0.7, 1.0, 0.5)
    return torch.randn(size, length, width, requires_grad=True), valid, weight


def compare(
    plan: Plan, x: Tensor, ours: Layer, peer: Layer, work: str, unit: str, reach: Reach, passes: int = PASSES
) -> Row:
    """Both layers in turn; `unit` is ms (of one pass) or k tokens/s."""
    passes = plan.size(passes)

    def timed(layer: Layer) -> dict[str, float]:
        start = perf_counter()
        for _ in range(passes):
            with products("auto", x.device):
                total = layer(x).sum()
            torch.autograd.backward(total)
        seconds = (perf_counter() - start) / passes
        return {"ms": 1000 * seconds, "k tokens/s": x.shape[0] * x.shape[1] / seconds / 1000}

    timed(ours), timed(peer)  # the first calls choose kernels and take memory
    mine, other = plan.alternate(lambda: timed(ours), lambda: timed(peer))
    return Row(work, unit, mine[unit], other[unit], reach)


def states(layers: list[Layer], x: Tensor) -> list[Tensor]:
    """States before, between and after residual layers, (B, L, D) each."""
    found = [x]
    for layer in layers:
        found.append(found[-1] + layer(found[-1]))
    return found


def correlation_row(plan: Plan, length: int) -> Row:
    """A stack of correlation attentions with weights, fused by the hook, against scaled dot products."""
    x, valid, weight = batch(length, WIDTH)
    stack = range(DEPTH)
    correlation = [CorrelationAttention(width=WIDTH, dropout=DROPOUT) for _ in stack]
    dot = [DotProductAttention(width=WIDTH, heads=1, dropout=DROPOUT) for _ in stack]
    ours: list[Layer] = [partial(layer, valid=valid, weight=weight) for layer in correlation]
    peer: list[Layer] = [partial(layer, valid=valid) for layer in dot]
    return compare(
        plan,
        x,
        lambda x: fuse(states(ours, x)),
        lambda x: states(peer, x)[-1],
        f"{DEPTH} × correlation attention, POS weight, hook / SDPA, L = {length}",
        "ms",
        Reach("≤", 1.08, "ratio"),
        1,
    )


def bert_attention(*, head_to_head: bool) -> Any:
    """One attention of a BERT, with projections and norm, as the encoder `pretrained` sets it up."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    backbone = BertModel(BertConfig(**BERT))
    if head_to_head:
        install(backbone, gate="residual", site="scores", placement="none")
    block: Any = backbone.encoder.layer[0]
    return block.attention.train()


def head_to_head_rows(plan: Plan, length: int) -> list[Row]:
    """Heads that weigh each other against the model's own attention: time, and the largest tensor that is made."""
    x, valid, _ = batch(length, BERT["hidden_size"])
    ours, peer = bert_attention(head_to_head=True), bert_attention(head_to_head=False)
    mask = key_mask(valid)
    work = f"head-to-head attention / SDPA, {BERT['num_attention_heads']} heads, L = {length}"
    time = compare(
        plan,
        x,
        lambda x: ours(x, attention_mask=mask)[0],
        lambda x: peer(x, attention_mask=mask)[0],
        work,
        "ms",
        Reach("≤", 1.08, "ratio"),
        2,
    )
    maps = x.shape[0] * BERT["num_attention_heads"] * length**2 * x.element_size() / 1e6
    ours.eval()  # with dropout on its weights the CPU's SDPA is not fused, and builds the maps with or without us
    largest = Measured((largest_tensor(lambda: ours(x, attention_mask=mask)[0]),))
    about = f"the same without dropout, largest tensor / one L × L map a head, L = {length}"
    return [time, Row(about, "MB", largest, Measured((maps,)), Reach("≤", 0.5, "ratio") if length > 32 else None)]


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The largest memory, in bytes, of a tensor that any operation gives while the context is open."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size: int = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `operation` and look at what it gives."""
        out = operation(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.size = max([self.size, *(tensor.untyped_storage().nbytes() for tensor in tensors)])
        return out


def largest_tensor(run: Callable[[], Tensor]) -> float:
    """MB of the largest tensor that is made forward and backward."""
    with Largest() as largest:
        torch.autograd.backward(run().sum())
    return float(largest.size) / 1e6


def perceptron_row(plan: Plan, length: int = 128) -> Row:
    """A semantic perceptron against PyTorch's own Transformer layer of the same widths."""
    x, valid, _ = batch(length, NARROW)
    perceptron = SemanticPerceptron(width=NARROW, hidden=HIDDEN, dropout=DROPOUT, order="random")
    block = nn.TransformerEncoderLayer(NARROW, 4, HIDDEN, DROPOUT, batch_first=True)
    x0 = torch.randn_like(x, requires_grad=True)
    return compare(
        plan,
        x,
        lambda x: perceptron(x, x0, valid, 1),
        lambda x: block(x, src_key_padding_mask=~valid),
        f"semantic perceptron / nn.TransformerEncoderLayer, L = {length}",
        "k tokens/s",
        Reach("≥", 4, "ratio"),
    )


def rows(plan: Plan) -> list[Row]:
    """One row a length, two where memory is measured too."""
    torch.set_num_threads(1)
    lengths = (32, 128, 512)
    correlation = [correlation_row(plan, length) for length in lengths]
    return [*correlation, *(row for length in lengths for row in head_to_head_rows(plan, length)), perceptron_row(plan)]
