"""Snapshot of a training as tensors and JSON values: everything that the next step depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from epigram.training.distributed import parallel
from epigram.training.loop.plan import Event
from epigram.training.loop.record import Position, Record
from epigram.training.loop.rollback import Losses

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer


@dataclass(frozen=True)
class Snapshot:
    """A training between two steps: `tensors` by name, and other `facts` as JSON values."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """Return the tensors named `name.…`, without that prefix."""
        return {
            key.removeprefix(f"{name}."): value for key, value in self.tensors.items() if key.startswith(f"{name}.")
        }


def take_snapshot(trainer: Trainer) -> Snapshot | None:
    """Return the snapshot of a training; None if a loss since the last check was NaN or infinite.

    It has the states of the random number generators of all processes that train together, each of which must call
    this function.
    """
    if trainer.losses.diverged:
        return None
    parts: dict[str, dict[str, Tensor]] = {
        "model": trainer.model.state_dict(),
        "moments": {
            f"{index}.{name}": value
            for index, moment in trainer.optimizer.state_dict()["state"].items()
            for name, value in moment.items()
        },
        "random": {"cpu": parallel.gather(torch.get_rng_state())},  # (processes, bytes)
        "best": trainer.best,
        "evaluated": {str(step): value for step, value in trainer.evaluated.items()},
        "objective": trainer.objective.state(),
        "loss": {"mean": torch.tensor(trainer.losses.mean, dtype=torch.float64)},
    }
    if torch.cuda.is_available():
        parts["random"]["cuda"] = parallel.gather(torch.cuda.get_rng_state())
    facts = {
        "rates": [group["lr"] for group in trainer.optimizer.param_groups],
        "schedule": trainer.schedule.state_dict(),
        "record": asdict(trainer.record),
        "position": asdict(trainer.position),
    }
    tensors = {f"{part}.{name}": value.detach() for part, each in parts.items() for name, value in each.items()}
    return Snapshot(tensors, facts)


def restore_snapshot(trainer: Trainer, snapshot: Snapshot) -> None:
    """Restore a training that has been built as at its start."""
    record = snapshot.facts["record"]
    events = [Event(*event) for event in record["events"]]
    trainer.record = Record(**{**record, "score": tuple(record["score"]), "events": events})
    trainer.position = Position(**snapshot.facts["position"])
    trainer.order.bit_generator.state = trainer.position.order
    for event in events:
        if event.kind == "drop":
            trainer.model.drop(event.layer)
    trainer.model.load_state_dict(snapshot.part("model"))
    _restore_optimizer(trainer, snapshot)
    trainer.schedule.load_state_dict(snapshot.facts["schedule"])
    trainer.objective.restore(snapshot.part("objective"))
    trainer.best = snapshot.part("best")
    trainer.evaluated = {int(step): value for step, value in snapshot.part("evaluated").items()}
    trainer.losses = Losses(float(snapshot.tensors["loss.mean"]))
    # a copy: PyTorch reads the storage of a state from its beginning, whatever the row
    random = {name: value.cpu()[parallel.rank()].clone() for name, value in snapshot.part("random").items()}
    torch.set_rng_state(random["cpu"])
    if "cuda" in random:
        torch.cuda.set_rng_state(random["cuda"])


def _restore_optimizer(trainer: Trainer, snapshot: Snapshot) -> None:
    state = trainer.optimizer.state_dict()
    state["state"] = {}
    for name, value in snapshot.part("moments").items():
        index, _, kind = name.partition(".")
        state["state"].setdefault(int(index), {})[kind] = value
    for group, rate in zip(state["param_groups"], snapshot.facts["rates"], strict=True):
        group["lr"] = rate
    trainer.optimizer.load_state_dict(state)
