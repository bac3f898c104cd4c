"""Faults that end processes: kill -9, SIGTERM, Ctrl-C."""

from __future__ import annotations

import os
import random
import signal

from tests.drill.bench import STAGE, Bench, Running, moment
from tests.drill.faults import Struck, any_stage, fault, span, undone
from tests.drill.reference import LEARNING

INTERRUPTED = {130, 143, -2, -15, 75, 255}  # by itself, by its parent, by the signal
ENDS = {0, 252} | INTERRUPTED  # 252 is what DVC makes of Ctrl-C


def _hit(pid: int | None, number: signal.Signals) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _at_stage(running: Running, rng: random.Random, name: str) -> int | None:
    """The process of the first stage that runs, after a random part of its time."""
    pid = running.bench.find(STAGE, running)
    running.after(moment(rng, running.bench.reference.seconds[name]))
    return running.bench.find(STAGE, running, 1.0) and pid


@fault("kill -9 of a stage alone", 14)
def stage_killed(bench: Bench, rng: random.Random) -> Struck:
    name = any_stage(bench, rng)
    bench.forget({name})
    running = bench.stage(name)
    at = moment(rng, bench.reference.seconds[name])
    struck = running.after(at)
    running.send(signal.SIGKILL)
    return Struck(f"{name} after {at:.1f} s", running.wait(), {0, -9}, struck=struck)


@fault("kill -9 of a stage under dvc", 12)
def stage_killed_under_dvc(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.dvc()
    struck = _hit(_at_stage(running, rng, name), signal.SIGKILL)
    return Struck(name, running.wait(), {0, 255} - ({0} if struck else set()), struck=struck)


@fault("kill -9 of a stage under the flow", 4)
def stage_killed_under_flow(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.flow()
    struck = _hit(_at_stage(running, rng, name), signal.SIGKILL)
    return Struck(f"{name}, tried again by the flow", running.wait(), {0}, struck=struck, by="flow")


@fault("kill -9 of dvc", 12)
def dvc_killed(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.dvc()
    at = moment(rng, span(bench, name))
    struck = running.after(at)
    running.send(signal.SIGKILL)
    ended = running.wait()
    return Struck(f"{name} and on, after {at:.1f} s", ended, {0, -9}, struck=struck)


@fault("kill -9 of dvc, run again at once", 6)
def dvc_killed_and_run_again(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.dvc()
    at = moment(rng, span(bench, name))
    struck = running.after(at)
    running.send(signal.SIGKILL)
    running.wait()
    again = bench.dvc().wait()
    return Struck(f"{name} and on, after {at:.1f} s", again, {0}, struck=struck)


@fault("kill -9 of dvc under the flow", 3)
def dvc_killed_under_flow(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.flow()
    bench.find(STAGE, running)
    running.after(moment(rng, bench.reference.seconds[name]))
    struck = _hit(bench.find("dvc_repro.py", running, 1.0), signal.SIGKILL)
    return Struck(f"{name}, tried again by the flow", running.wait(), {0}, struck=struck, by="flow")


@fault("kill -9 of the flow", 8)
def flow_killed(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.flow()
    at = moment(rng, 4.0 + span(bench, name))
    struck = running.after(at)
    running.send(signal.SIGKILL)
    return Struck(
        f"{name} and on, after {at:.1f} s", running.wait(), {0, -9}, struck=struck, by=rng.choice(["dvc", "flow"])
    )


@fault("kill -9 of the Prefect server", 4)
def server_killed(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    running = bench.flow(own_server=True)
    pid = bench.find("tasks.prefect_app", running)
    at = moment(rng, 12.0 + span(bench, name))
    running.after(at)
    struck = _hit(pid, signal.SIGKILL) and running.child.poll() is None
    return Struck(f"{name} and on, after {at:.1f} s", running.wait(), {0, 69, 75}, struck=struck)


@fault("SIGTERM to a stage", 12)
def stage_terminated(bench: Bench, rng: random.Random) -> Struck:
    name = rng.choice([any_stage(bench, rng), *LEARNING])
    bench.forget({name})
    running = bench.stage(name)
    at = moment(rng, bench.reference.seconds[name])
    struck = running.after(at)
    running.send(signal.SIGTERM)
    return Struck(f"{name} after {at:.1f} s", running.wait(), {0, -15, 75, 143}, struck=struck)


@fault("SIGTERM in training", 12)
def training_terminated(bench: Bench, rng: random.Random) -> Struck:
    return _training(bench, rng, signal.SIGTERM, {0, 75, -15})


@fault("Ctrl-C in training", 8)
def training_interrupted(bench: Bench, rng: random.Random) -> Struck:
    return _training(bench, rng, signal.SIGINT, {0, 130, -2})


@fault("kill -9 in training", 12)
def training_killed(bench: Bench, rng: random.Random) -> Struck:
    return _training(bench, rng, signal.SIGKILL, {0, -9})


def _training(bench: Bench, rng: random.Random, number: signal.Signals, codes: set[int]) -> Struck:
    """The signal strikes once training has said something; as Python ends, it acts by itself."""
    running, name = learning(bench, rng)
    at = moment(rng, bench.reference.seconds[name] / 2)
    struck = running.after(at)
    running.send(number)
    ended = running.wait()
    saved = any((bench.repo / ".pithy/state").rglob("state.json")) or ended.code not in {75, 130}
    losses = [] if saved else ["no checkpoint was written"]
    return Struck(f"{name} {at:.1f} s after its first line", ended, codes, losses, struck=struck)


def learning(bench: Bench, rng: random.Random) -> tuple[Running, str]:
    """A stage that learns, at work since a moment ago, and its name."""
    name = rng.choice(LEARNING)
    bench.forget({name})
    running = bench.stage(name)
    running.until(lambda said: "epoch" in said)
    return running, name


@fault("Ctrl-C in a terminal under dvc", 8)
def dvc_interrupted(bench: Bench, rng: random.Random) -> Struck:
    return _signalled(bench, rng, signal.SIGINT, group=True)


@fault("SIGTERM to dvc", 6)
def dvc_terminated(bench: Bench, rng: random.Random) -> Struck:
    return _signalled(bench, rng, signal.SIGTERM, group=False)


def _signalled(bench: Bench, rng: random.Random, number: signal.Signals, *, group: bool) -> Struck:
    name = undone(bench, rng)
    running = bench.dvc()
    at = moment(rng, span(bench, name))
    struck = running.after(at)
    running.send(number, group=group)
    return Struck(f"{name} and on, after {at:.1f} s", running.wait(), ENDS, struck=struck)


@fault("SIGTERM or Ctrl-C to the flow", 8)
def flow_interrupted(bench: Bench, rng: random.Random) -> Struck:
    name = undone(bench, rng)
    number, group = rng.choice([(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGINT, True)])
    running = bench.flow()
    at = moment(rng, 4.0 + span(bench, name))
    struck = running.after(at)
    running.send(number, group=group)
    detail = f"{number.name}{' to all' if group else ''}, {name} and on, after {at:.1f} s"
    codes = {0, 130, -2} if number == signal.SIGINT else {0, 75, 143, -15}
    return Struck(detail, running.wait(), codes, struck=struck, by=rng.choice(["dvc", "flow"]))


@fault("two signals to a stage", 4)
def signalled_twice(bench: Bench, rng: random.Random) -> Struck:
    """An impatient user: Ctrl-C again, while the first is still being answered."""
    running, name = learning(bench, rng)
    struck = running.after(moment(rng, bench.reference.seconds[name] / 2))
    first, second = rng.choice([signal.SIGINT, signal.SIGTERM]), rng.choice([signal.SIGINT, signal.SIGTERM])
    running.send(first)
    running.after(moment(rng, 0.05))
    running.send(second)
    return Struck(f"{name}: {first.name}, {second.name}", running.wait(), {0, 75, 130, -2, -15}, struck=struck)
