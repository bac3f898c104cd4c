"""Preparation of the shop's states, and count of the steps at which a fault can be injected."""

from __future__ import annotations

from pathlib import Path

from tests.drill.place import Running
from tests.drill.shop import (
    CHALLENGED,
    CROWNED,
    OVERRIDES,
    PROMOTED,
    PROMOTING,
    RESTORING,
    ROLLING_BACK,
    TAKING,
    Shop,
    Window,
    lay_out_shop,
    steps_of,
)
from tests.drill.shop_bench import ShopBench
from tests.drill.standing import model_hash
from tests.support.shop import reviews

BATCH = "monday.csv"


def prepare_shop(folder: Path, server: str) -> Shop:
    """Create the three states."""
    bench = ShopBench(folder / "making", lay_out_shop(folder), server, mounted=False)
    _crown(bench)
    _promote(bench)
    _roll_back(bench)
    _challenge(bench)
    return bench.shop


def _crown(bench: ShopBench) -> None:
    """Create the state with a first champion, and the workspaces of runs with overrides."""
    _fresh(bench, "new")
    _succeed(bench.retrain())
    for number, override in enumerate(OVERRIDES, 1):
        _succeed(bench.pipeline(*override, "--name", f"earlier-{number}"))
    bench.keep(CROWNED)
    bench.shop.models[1] = model_hash(bench.repo / "runs/champion/model")


def _promote(bench: ShopBench) -> None:
    """Create the state with a second champion."""
    bench.arrive(BATCH, reviews(300, "slang", seed=1))
    steps = _steps(bench, Window("."))
    bench.keep(PROMOTED)
    bench.shop.models[2] = model_hash(bench.repo / "runs/champion/model")
    bench.shop.steps.update({window: window.count(steps) for window in (TAKING, PROMOTING)})


def _roll_back(bench: ShopBench) -> None:
    """Count the steps of a rollback, once with the first model in its place and once without."""
    for window in (ROLLING_BACK, RESTORING):
        _fresh(bench, PROMOTED)
        if window == RESTORING:
            bench.delete_first_model()
        bench.shop.steps[window] = window.count(_steps(bench, window))


def _challenge(bench: ShopBench) -> None:
    """Create the state right before the promotion of the second champion."""
    _fresh(bench, CROWNED)
    bench.arrive(BATCH, reviews(300, "slang", seed=1))
    stopped = bench.stop(PROMOTING, turn=0)
    if not stopped.step:
        raise RuntimeError(f"no promotion: {stopped.running.wait().said}")
    stopped.running.kill()
    bench.orphans()
    bench.keep(CHALLENGED)


def _steps(bench: ShopBench, window: Window) -> list[str]:
    """Run the command of a window and return all of its steps."""
    running, log = bench.stepped(window, 0)
    _succeed(running)
    return steps_of(log.read_text().splitlines())


def _fresh(bench: ShopBench, state: str) -> None:
    bench.restore(state)
    bench.begin(state)


def _succeed(running: Running) -> None:
    ended = running.wait()
    if ended.code:
        raise RuntimeError(f"the shop cannot be prepared: exit code {ended.code}\n{ended.said}")
