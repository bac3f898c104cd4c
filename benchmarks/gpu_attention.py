"""Head-to-head attention, forward and backward in bf16, against plain attention and against the L×L form.

The sizes are those of BERT-base. No text is padded, so that plain attention uses its fastest kernel.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from benchmarks.gpu_data import DEVICE, seconds
from benchmarks.rows import Reach, Row
from benchmarks.timing import Plan
from epigram.models.precision import matmul_precision
from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.attention.head_to_head import HeadToHead

LENGTHS = (128, 512, 2048)
TOKENS = 32_768  # per batch
WIDTH, HEADS, DROPOUT = 768, 12, 0.1
PASSES = 20
SETTINGS = {"tokens": TOKENS, "lengths": list(LENGTHS), "width": WIDTH, "heads": HEADS, "dropout": DROPOUT}


class Eager(nn.Module):
    """The equations of head-to-head attention as printed, on the score matrix: (B, L, D) → (B, L, D)."""

    def __init__(self, layer: DotProductAttention, part: HeadToHead) -> None:
        super().__init__()
        self.layer, self.part = layer, part

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Return the attention output of `x` (B, L, D); `valid` is not read, because there is no padding."""
        batch, length, width = x.shape
        q, k, v = self.layer.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) / math.sqrt(width // HEADS)  # U (B, H, L, L)
        factors = self.part(scores.mean((2, 3)))  # Eq. 1–5
        weights = (scores * factors[:, :, None, None].to(scores.dtype)).softmax(-1)  # Eq. 6
        y = dropout(weights, DROPOUT) @ v
        out: Tensor = self.layer.out(y.transpose(1, 2).reshape(batch, length, width))
        return out


def timed(plan: Plan, layer: nn.Module, x: Tensor, valid: Tensor) -> Callable[[], dict[str, float]]:
    """Return a run of several passes that measures the ms per pass."""
    passes = plan.size(PASSES)

    def run() -> None:
        for _ in range(passes):
            with matmul_precision("auto", DEVICE):
                out = layer(x, valid)
            torch.autograd.backward(out.sum())

    run()  # warm-up: the first call selects kernels and allocates memory
    return lambda: {"ms": 1000 * seconds(run) / passes}


def length_rows(plan: Plan, length: int) -> list[Row]:
    """Return both comparisons at one length; the L×L form is left out if it runs out of GPU memory."""
    torch.manual_seed(0)
    x = torch.randn(max(1, (512 if plan.tiny else TOKENS) // length), length, WIDTH, device=DEVICE, requires_grad=True)
    valid = torch.ones(x.shape[:2], dtype=torch.bool, device=DEVICE)
    part = HeadToHead(heads=HEADS, gate="residual", site="scores", dropout=DROPOUT).to(DEVICE)
    plain = DotProductAttention(width=WIDTH, heads=HEADS, dropout=DROPOUT).to(DEVICE)
    weighed = DotProductAttention(width=WIDTH, heads=HEADS, dropout=DROPOUT, head_to_head=part).to(DEVICE)
    mine, other = plan.alternate(timed(plan, weighed, x, valid), timed(plan, plain, x, valid), rounds=11)
    work = f"head-to-head attention, B × L = {x.shape[0]} × {length}"
    rows = [Row(work, "ms", mine["ms"], {"the same kernel, dot products": other["ms"]}, Reach("≤", 1.05, "ratio"))]
    try:
        mine, other = plan.alternate(
            timed(plan, weighed, x, valid), timed(plan, Eager(weighed, part), x, valid), rounds=5
        )
    except torch.cuda.OutOfMemoryError:
        print(f"{work}: the L×L form does not fit the card: left out", file=sys.stderr)
        return rows
    return [*rows, Row(f"{work}, again", "ms", mine["ms"], {"the equations on the L×L matrix": other["ms"]})]


def rows(plan: Plan) -> list[Row]:
    """Return the rows of every length."""
    lengths = (16, 64) if plan.tiny else LENGTHS
    return [row for length in lengths for row in length_rows(plan, length)]
