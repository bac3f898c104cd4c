"""State of a training as tensors and JSON values: everything that the next step depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from epigram.training import parallel


@dataclass(frozen=True)
class State:
    """State of a training between two steps: `tensors` by name, and other `facts` as JSON values."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """Return the tensors named `name.…`, without that prefix."""
        return {
            key.removeprefix(f"{name}."): value for key, value in self.tensors.items() if key.startswith(f"{name}.")
        }


def capture(model: nn.Module, optimizer: Optimizer, schedule: LambdaLR) -> State:
    """Return weights, optimizer state, learning rates, schedule and the states of the random number generators.

    The generators are those of all processes that train together, each of which must call this function.
    """
    moments = {
        f"moments.{index}.{name}": value
        for index, moment in optimizer.state_dict()["state"].items()
        for name, value in moment.items()
    }
    tensors = {**{f"model.{name}": value for name, value in model.state_dict().items()}, **moments}
    random = {"random.cpu": parallel.gather(torch.get_rng_state())}  # (processes, bytes)
    if torch.cuda.is_available():
        random["random.cuda"] = parallel.gather(torch.cuda.get_rng_state())
    facts = {
        "rates": [group["lr"] for group in optimizer.param_groups],
        "schedule": schedule.state_dict(),
    }
    return State({name: value.detach() for name, value in {**tensors, **random}.items()}, facts)


def restore(state: State, model: nn.Module, optimizer: Optimizer, schedule: LambdaLR) -> None:
    """Restore model, optimizer, schedule and the random number generators from `state`.

    Build all three as at the start of the training, and drop from `model` the layers that were dropped since then.
    """
    model.load_state_dict(state.part("model"))
    optimizer_state, moments = optimizer.state_dict(), state.part("moments")
    optimizer_state["state"] = {}
    for name, value in moments.items():
        index, _, kind = name.partition(".")
        optimizer_state["state"].setdefault(int(index), {})[kind] = value
    for group, rate in zip(optimizer_state["param_groups"], state.facts["rates"], strict=True):
        group["lr"] = rate
    optimizer.load_state_dict(optimizer_state)
    schedule.load_state_dict(state.facts["schedule"])
    # a copy: PyTorch reads the storage of a state from its beginning, whatever the row
    random = {name: value.cpu()[parallel.rank()].clone() for name, value in state.part("random").items()}
    torch.set_rng_state(random["cpu"])
    if "cuda" in random:
        torch.cuda.set_rng_state(random["cuda"])
