"""Faults that terminate processes: kill -9, SIGTERM and Ctrl-C."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import psutil

from tests.drill.bench import STAGE, Bench
from tests.drill.evidence import INTERRUPTED, KILLED, answered, has_ended, is_running, mentions
from tests.drill.faults import Injection, alone, any_stage, fault, span, undone
from tests.drill.place import Running, moment
from tests.drill.progress import reached
from tests.drill.reference import LEARNING

RETRIED = ("Retrying",)  # printed by the flow when it retries a stage
ENDS = {130, 143, -2, -15, 252}  # handled by the process or killed by the signal; DVC exits with 252 after Ctrl-C
FIRST_EPOCH = 60.0  # seconds within which a training ends its first epoch
FAILED = {75, 255}  # exit codes of any failure: a message must name the signal


def _kill(pid: int | None) -> bool:
    """Kill a process; return whether it was alive and has ended."""
    if pid is None or not is_running(pid):
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return has_ended(pid)


def _dvc_of(stage: int | None) -> int | None:
    """Return the process of DVC that runs the stage; None if it has ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(stage) if stage else None
        for each in [process, *process.parents()] if process else []:
            if "runner/dvc/repro.py" in " ".join(each.cmdline()):
                return each.pid
    return None


def _at_stage(bench: Bench, running: Running, rng: random.Random, name: str) -> int | None:
    """Return the first stage's process id after a random part of the run time; None if no stage is running then."""
    pid = bench.find(STAGE, running)
    running.after(moment(rng, bench.reference.seconds[name]))
    return bench.find(STAGE, running, 1.0) and pid


@fault("kill -9 of a stage alone", 14)
def stage_killed(bench: Bench, rng: random.Random) -> Injection:
    name = any_stage(bench, rng)
    bench.forget({name})
    running = bench.stage(name)
    at = moment(rng, alone(bench, name))
    running.after(at)
    sent, ended = running.send(signal.SIGKILL), running.wait()
    return Injection(f"{name} after {at:.1f} s", answered(sent, ended, {-9}), ended, {0, -9})


@fault("kill -9 of a stage under dvc", 12)
def stage_killed_under_dvc(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.dvc()
    killed = _kill(_at_stage(bench, running, rng, name))
    ended = running.wait()
    observed = killed and mentions(ended, KILLED)
    return Injection(name, observed, ended, {255} if observed else {0, 255})


@fault("kill -9 of a stage under the flow", 4)
def stage_killed_under_flow(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.flow()
    killed = _kill(_at_stage(bench, running, rng, name))
    ended = running.wait()
    return Injection(f"{name}, tried again by the flow", killed and mentions(ended, RETRIED), ended, {0}, by="flow")


@fault("kill -9 of dvc", 12)
def dvc_killed(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.dvc()
    at = moment(rng, span(bench))
    running.after(at)
    sent, ended = running.send(signal.SIGKILL), running.wait()
    return Injection(f"{name} and on, after {at:.1f} s", answered(sent, ended, {-9}), ended, {0, -9})


@fault("kill -9 of dvc, run again at once", 6)
def dvc_killed_and_run_again(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.dvc()
    at = moment(rng, span(bench))
    running.after(at)
    observed = answered(running.send(signal.SIGKILL), running.wait(), {-9})
    return Injection(f"{name} and on, after {at:.1f} s", observed, bench.dvc().wait(), {0})


@fault("kill -9 of dvc under the flow", 3)
def dvc_killed_under_flow(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.flow()
    bench.find(STAGE, running)
    running.after(moment(rng, bench.reference.seconds[name]))
    killed = _kill(_dvc_of(bench.find(STAGE, running, 1.0)))  # other processes of DVC may wait for a stage
    ended = running.wait()
    return Injection(f"{name}, tried again by the flow", killed and mentions(ended, RETRIED), ended, {0}, by="flow")


@fault("kill -9 of the flow", 8)
def flow_killed(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.flow()
    at = moment(rng, 4.0 + span(bench))
    running.after(at)
    sent, ended = running.send(signal.SIGKILL), running.wait()
    detail, by = f"{name} and on, after {at:.1f} s", rng.choice(["dvc", "flow"])
    return Injection(detail, answered(sent, ended, {-9}), ended, {0, -9}, by=by)


@fault("kill -9 of the Prefect server", 4)
def server_killed(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    running = bench.flow(own_server=True)
    pid = bench.find("epigram.runner.service.server_app", running)
    at = moment(rng, 12.0 + span(bench))
    running.after(at)
    observed = _kill(pid) and running.child.poll() is None
    return Injection(f"{name} and on, after {at:.1f} s", observed, running.wait(), {0, 69, 75})


@fault("SIGTERM to a stage", 12)
def stage_terminated(bench: Bench, rng: random.Random) -> Injection:
    name = rng.choice([any_stage(bench, rng), *LEARNING])
    bench.forget({name})
    running = bench.stage(name)
    at, codes = moment(rng, alone(bench, name)), {0, -15, 75, 143}
    running.after(at)
    sent, ended = running.send(signal.SIGTERM), running.wait()
    return Injection(f"{name} after {at:.1f} s", answered(sent, ended, codes), ended, codes)


@fault("SIGTERM in training", 12)
def training_terminated(bench: Bench, rng: random.Random) -> Injection:
    return _training(bench, rng, signal.SIGTERM, {0, 75, -15})


@fault("Ctrl-C in training", 8)
def training_interrupted(bench: Bench, rng: random.Random) -> Injection:
    return _training(bench, rng, signal.SIGINT, {0, 130, -2})


def _training(bench: Bench, rng: random.Random, number: signal.Signals, codes: set[int]) -> Injection:
    """Send the signal once training has printed something; while Python exits, the signal has its default effect."""
    running, name = learning(bench, rng)
    at = moment(rng, bench.reference.seconds[name] / 4)
    running.after(at)
    sent, ended = running.send(number), running.wait()
    saved = any((bench.repo / ".epigram/state").rglob("state.json")) or ended.code not in {75, 130}
    losses = [] if saved else ["no checkpoint was written"]
    observed = answered(sent, ended, codes) and "epoch" in ended.said
    return Injection(f"{name} {at:.1f} s after its first line", observed, ended, codes, losses)


@fault("kill -9 in training", 12)
def training_killed(bench: Bench, rng: random.Random) -> Injection:
    """Kill a training: the next run must resume from a checkpoint that is at most one step old."""
    began = time.time()
    running, name = learning(bench, rng)
    at = moment(rng, bench.reference.seconds[name] / 4)
    running.after(at)
    killed, sent, ended = time.time(), running.send(signal.SIGKILL), running.wait()
    bench.wait_until_idle()
    outputs = [bench.repo / out for out in bench.reference.outs(name)]
    progress = reached(bench.repo / ".epigram/state", outputs, began, killed, ended.said)
    detail = f"{name} {at:.1f} s after its first line"
    observed = answered(sent, ended, {-9}) and "epoch" in ended.said
    return Injection(detail, observed, ended, {0, -9}, reached=progress)


def learning(bench: Bench, rng: random.Random) -> tuple[Running, str]:
    """Start a stage that trains, wait until its first epoch has ended, and return it with its name."""
    name = rng.choice(LEARNING)
    bench.forget({name})
    running = bench.stage(name)
    running.until(lambda said: "epoch" in said, FIRST_EPOCH)
    return running, name


@fault("Ctrl-C in a terminal under dvc", 8)
def dvc_interrupted(bench: Bench, rng: random.Random) -> Injection:
    return _signalled(bench, rng, signal.SIGINT, group=True)


@fault("SIGTERM to dvc", 6)
def dvc_terminated(bench: Bench, rng: random.Random) -> Injection:
    return _signalled(bench, rng, signal.SIGTERM, group=False)


def _signalled(bench: Bench, rng: random.Random, number: signal.Signals, *, group: bool) -> Injection:
    name = undone(bench, rng)
    running = bench.dvc()
    at = moment(rng, span(bench))
    running.after(at)
    sent, ended = running.send(number, group=group), running.wait()
    observed = answered(sent, ended, ENDS | FAILED if mentions(ended, INTERRUPTED) else ENDS)
    return Injection(f"{name} and on, after {at:.1f} s", observed, ended, {0} | ENDS | FAILED)


@fault("SIGTERM or Ctrl-C to the flow", 8)
def flow_interrupted(bench: Bench, rng: random.Random) -> Injection:
    name = undone(bench, rng)
    number, group = rng.choice([(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGINT, True)])
    running = bench.flow()
    at = moment(rng, 4.0 + span(bench))
    running.after(at)
    sent, ended = running.send(number, group=group), running.wait()
    detail = f"{number.name}{' to all' if group else ''}, {name} and on, after {at:.1f} s"
    codes = {0, 130, -2} if number == signal.SIGINT else {0, 75, 143, -15}
    return Injection(detail, answered(sent, ended, codes), ended, codes, by=rng.choice(["dvc", "flow"]))


@fault("two signals to a stage", 4)
def signalled_twice(bench: Bench, rng: random.Random) -> Injection:
    """Send a second signal while the first is still being handled, as an impatient user does."""
    running, name = learning(bench, rng)
    running.after(moment(rng, bench.reference.seconds[name] / 4))
    first, second = rng.choice([signal.SIGINT, signal.SIGTERM]), rng.choice([signal.SIGINT, signal.SIGTERM])
    sent, pause, codes = running.send(first), moment(rng, 0.05), {0, 75, 130, -2, -15}
    running.after(pause)
    both, ended = running.send(second) and sent, running.wait()
    return Injection(f"{name}: {first.name}, {second.name}", answered(both, ended, codes), ended, codes)
