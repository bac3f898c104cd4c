"""Speed of layers: our attentions against plain ones, the semantic perceptron against a Transformer layer.

Forward and backward passes are timed with the sizes of `transformer_f`, MiniLM and `dmsp`; both sides run in the
training precision. The attentions have two peers: the same kernel without the measured part, and PyTorch's own kernel.
The ratio is to the faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import Plan
from epigram.models.precision import matmul_precision
from epigram.nn.encoders.semantic_perceptron import SemanticPerceptron
from epigram.nn.layers.attention.correlation import CorrelationAttention
from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.hook_fusion import fuse
from epigram.nn.layers.pooling import key_mask
from epigram.nn.pretrained.transformers_attention import install_attention

TOKENS = 4_096  # per batch, padding included
WIDTH, DROPOUT, DEPTH = 128, 0.2, 6
NARROW, HIDDEN = 64, 512  # sizes of dmsp
BERT: dict[str, Any] = {
    "hidden_size": 384,
    "num_attention_heads": 12,
    "num_hidden_layers": 1,
    "vocab_size": 2,
}  # sizes of MiniLM
PASSES, ROUNDS = 5, 9
LENGTHS = (32, 128, 512)
CORRELATION_REACH = {32: 1.0, 128: 1.0, 512: 1.15}  # times the dot products
SETTINGS = {"tokens": TOKENS, "lengths": list(LENGTHS), "dropout": DROPOUT, "threads": 1}
OWN_KERNEL, LIBRARY = "the same kernel, dot products", "F.scaled_dot_product_attention"
Layer = Callable[[Tensor], Tensor]


def batch(length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return vectors (B, L, D), mask and POS weights (B, L) of texts with 0.9 L to L tokens, as in real batches."""
    torch.manual_seed(0)
    size = TOKENS // length
    lengths = torch.randint(int(0.9 * length), length + 1, (size, 1))
    valid = torch.arange(length) < lengths
    weight = torch.where(torch.rand(size, length) < 0.7, 1.0, 0.5)
    return torch.randn(size, length, width, requires_grad=True), valid, weight


def compare(
    plan: Plan,
    x: Tensor,
    ours: Layer,
    peers: Mapping[str, Layer],
    work: str,
    unit: str,
    reach: Reach,
    passes: int = PASSES,
) -> Row:
    """Time all layers in turn; `unit` is ms (per pass) or k tokens/s."""
    passes = plan.size(passes)

    def timed(layer: Layer) -> dict[str, float]:
        start = perf_counter()
        for _ in range(passes):
            with matmul_precision("auto", x.device):
                total = layer(x).sum()
            torch.autograd.backward(total)
        seconds = (perf_counter() - start) / passes
        return {"ms": 1000 * seconds, "k tokens/s": x.shape[0] * x.shape[1] / seconds / 1000}

    layers = [ours, *peers.values()]
    for layer in layers:
        timed(layer)  # warm-up: the first call selects kernels and allocates memory
    mine, *others = plan.alternate(*(partial(timed, layer) for layer in layers), rounds=ROUNDS)
    return Row(work, unit, mine[unit], {name: found[unit] for name, found in zip(peers, others, strict=True)}, reach)


def states(layers: list[Layer], x: Tensor) -> list[Tensor]:
    """Return the states before, between and after residual layers, (B, L, D) each."""
    found = [x]
    for layer in layers:
        found.append(found[-1] + layer(found[-1]))
    return found


class LibraryAttention(DotProductAttention):
    """The same layer with PyTorch's own attention kernel and dropout."""

    def forward(self, x: Tensor, valid: Tensor, weight: Tensor | None = None, full: bool | None = None) -> Tensor:
        """Attend from every token of `x` (B, L, D) to the `valid` tokens (B, L)."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, valid[:, None, None, :], dropout_p=self.dropout)
        out: Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
        return out


def correlation_row(plan: Plan, length: int) -> Row:
    """Compare a stack of correlation attentions with POS weights and hook fusion with dot-product attentions."""
    x, valid, weight = batch(length, WIDTH)
    correlation = [CorrelationAttention(width=WIDTH, dropout=DROPOUT) for _ in range(DEPTH)]
    kinds = {OWN_KERNEL: DotProductAttention, LIBRARY: LibraryAttention}
    stacks: dict[str, list[Layer]] = {
        name: [partial(kind(width=WIDTH, heads=1, dropout=DROPOUT), valid=valid) for _ in range(DEPTH)]
        for name, kind in kinds.items()
    }
    ours: list[Layer] = [partial(layer, valid=valid, weight=weight) for layer in correlation]
    peers: dict[str, Layer] = {name: partial(last_state, stack) for name, stack in stacks.items()}
    work = f"{DEPTH} × correlation attention with POS weight and hook, L = {length}"
    reach = Reach("≤", CORRELATION_REACH[length], "ratio")
    return compare(plan, x, lambda x: fuse(states(ours, x)), peers, work, "ms", reach, 2)


def last_state(layers: list[Layer], x: Tensor) -> Tensor:
    """Return the state (B, L, D) after the last of some residual layers."""
    return states(layers, x)[-1]


def bert_attention(kind: str) -> Any:
    """Return the attention block of a BERT layer, including its projections and layer norm.

    `kind` is `library` for the block of transformers, `plain` for epigram's kernel, or `head-to-head`.
    """
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    backbone = BertModel(BertConfig(**BERT))
    if kind != "library":
        install_attention(
            backbone, gate="residual" if kind == "head-to-head" else "none", site="scores", placement="none"
        )
    block: Any = backbone.encoder.layer[0]
    return block.attention.train()


def attention_pass(attention: Any, mask: Tensor | None, x: Tensor) -> Tensor:
    """Return the output (B, L, D) of a BERT attention block."""
    out: Tensor = attention(x, attention_mask=mask)[0]
    return out


def head_to_head_rows(plan: Plan, length: int) -> list[Row]:
    """Compare head-to-head attention with the same attention without it: time and largest tensor."""
    x, valid, _ = batch(length, BERT["hidden_size"])
    mask = key_mask(valid)
    ours, plain, library = (bert_attention(kind) for kind in ("head-to-head", "plain", "library"))
    peers: dict[str, Layer] = {
        OWN_KERNEL: partial(attention_pass, plain, mask),
        LIBRARY: partial(attention_pass, library, mask),
    }
    layer = partial(attention_pass, ours, mask)
    work = f"head-to-head attention, {BERT['num_attention_heads']} heads, L = {length}"
    time = compare(plan, x, layer, peers, work, "ms", Reach("≤", 1.05, "ratio"))
    maps = x.shape[0] * BERT["num_attention_heads"] * length**2 * x.element_size() / 1e6
    ours.eval()  # with dropout, SDPA on the CPU is not fused and builds the L × L maps in any case
    largest = Measured((largest_tensor(lambda: layer(x)),))
    about, bound = f"the same without dropout, largest tensor, L = {length}", Reach("≤", 0.5, "ratio")
    return [
        time,
        Row(about, "MB", largest, {"one L × L map a head": Measured((maps,))}, bound if length > 32 else None),
    ]


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the size in bytes of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size: int = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `operation` and record the size of its results."""
        out = operation(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.size = max([self.size, *(tensor.untyped_storage().nbytes() for tensor in tensors)])
        return out


def largest_tensor(run: Callable[[], Tensor]) -> float:
    """Return the size (MB) of the largest tensor of a forward and backward pass."""
    with Largest() as largest:
        torch.autograd.backward(run().sum())
    return float(largest.size) / 1e6


def perceptron_row(plan: Plan, length: int = 128) -> Row:
    """Compare a semantic perceptron with PyTorch's Transformer layer of the same widths."""
    x, valid, _ = batch(length, NARROW)
    perceptron = SemanticPerceptron(width=NARROW, hidden=HIDDEN, dropout=DROPOUT, order="random")
    block = nn.TransformerEncoderLayer(NARROW, 4, HIDDEN, DROPOUT, batch_first=True)
    x0 = torch.randn_like(x, requires_grad=True)
    return compare(
        plan,
        x,
        lambda x: perceptron(x, x0, valid, 1),
        {"nn.TransformerEncoderLayer": lambda x: block(x, src_key_padding_mask=~valid)},
        f"semantic perceptron, L = {length}",
        "k tokens/s",
        Reach("≥", 4, "ratio"),
    )


def rows(plan: Plan) -> list[Row]:
    """Return the rows of both attentions at every length, and the row of the semantic perceptron."""
    torch.set_num_threads(1)
    lengths = plan.few(LENGTHS)
    correlation = [correlation_row(plan, length) for length in lengths]
    return [*correlation, *(row for length in lengths for row in head_to_head_rows(plan, length)), perceptron_row(plan)]
