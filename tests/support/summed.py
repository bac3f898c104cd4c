"""Program of two processes that sum gradients in buckets and in one operation: torchrun … tests/support/summed.py OUT.

For each case, the file OUT/CASE.RANK has the gradients by `buckets` and by `plain` sums; a missing one has no entry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, distributed, nn

from epigram.training import gradient_buckets, parallel
from epigram.training.gradient_buckets import GradientBuckets


class Layers(nn.Module):
    """Layers, each of which can be left out, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(7, 7) for _ in range(5))
        self.table = nn.Embedding(4, 7, sparse=True)
        self.unused = nn.Linear(3, 3)
        self.frozen = nn.Linear(7, 7).requires_grad_(False)

    def forward(self, x: Tensor, used: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Tensor:
        """Return a scalar that depends on the layers `used`."""
        x = x + self.table(torch.tensor([1 + parallel.rank()]))
        for number in used:
            x = self.layers[number](x).tanh()
        return self.frozen(x).square().mean()


def pieces(model: Layers, buckets: GradientBuckets | None, case: str) -> None:
    """Run the backward passes of one step."""
    generator = torch.Generator().manual_seed(parallel.rank())
    first, second = torch.randn(2, 6, 7, generator=generator)
    if case == "micro-batches" and parallel.rank() == 0:  # the other process has only one
        model(first).backward()
    used = {"reversed": (4, 3, 2, 1, 0), "one rank": (0, 1, 2) if parallel.rank() else (0, 1, 2, 3, 4)}
    if buckets is not None:
        buckets.expect_last()
    model(second, used.get(case, (0, 1, 2, 3, 4))[: len(model.layers)]).backward()


def by_buckets(model: Layers, case: str, buckets: GradientBuckets) -> None:
    """Sum in buckets; in the case `error`, one process cannot finish its backward pass, and all repeat it."""
    if case == "error":
        model.zero_grad()
        try:
            with parallel.share_out_of_memory(), buckets.summed():
                buckets.expect_last()
                if parallel.rank():
                    raise MemoryError
                pieces(model, buckets, case)
        except MemoryError:
            pass
    model.zero_grad()
    with buckets.summed():
        pieces(model, buckets, case)


def plainly(model: Layers, case: str, buckets: GradientBuckets) -> None:
    """Sum each gradient on its own; a missing one counts as zero if another process has it."""
    model.zero_grad()
    pieces(model, None, case)
    trained = [p for p in model.parameters() if p.requires_grad]
    present = parallel.maximum([p.grad is not None for p in trained])
    for p, has in zip(trained, present, strict=True):
        if has:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.to_dense().clone()
            distributed.all_reduce(p.grad)


def main(out: Path) -> None:
    """Write the gradients of every case, with small buckets; each case twice, as buckets are used again."""
    gradient_buckets.BUCKET_BYTES = 300
    ways: dict[str, Callable[[Layers, str, GradientBuckets], None]] = {"buckets": by_buckets, "plain": plainly}
    for case in ("all", "micro-batches", "reversed", "one rank", "dropped", "error"):
        torch.manual_seed(0)
        model, found = Layers(), {}
        buckets = GradientBuckets(model)
        for _ in range(2):
            for way, run in ways.items():
                run(model, case, buckets)
                found |= {f"{way} {name}": p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
            if case == "dropped" and len(model.layers) == 5:
                del model.layers[4]
                found = {}
        save_file(found, out / f"{case}.{parallel.rank()}")


if __name__ == "__main__":
    with parallel.process_group():
        main(Path(sys.argv[1]))
