"""Faults of the disk: full at a random byte, read-only at a random folder."""

from __future__ import annotations

import random

from tests.drill.bench import Bench
from tests.drill.faults import Struck, any_stage, fault, undone

PLACES = (".", "data", "data/models", "data/encoded", ".dvc", ".dvc/cache", ".dvc/tmp", ".pithy", "runs")


def _room(rng: random.Random) -> int:
    """Bytes left on the disk, small amounts as likely as large ones."""
    return int(4096 * 2 ** rng.uniform(0, 11))


@fault("disk full under a stage", 14, mounts=True)
def full_under_stage(bench: Bench, rng: random.Random) -> Struck:
    name, room = any_stage(bench, rng), _room(rng)
    bench.forget({name})
    with bench.full(room):
        ended = bench.stage(name).wait()
    losses = _clear(ended.said) if ended.code else []
    return Struck(f"{name}, {room // 1024} KB left", ended, {0, 74}, losses, struck=ended.code != 0)


@fault("disk full under dvc", 12, mounts=True)
def full_under_dvc(bench: Bench, rng: random.Random) -> Struck:
    name, room = undone(bench, rng), _room(rng)
    with bench.full(room):
        ended = bench.dvc().wait()
    return Struck(f"{name} and on, {room // 1024} KB left", ended, struck=ended.code != 0)


@fault("disk full under the flow", 4, mounts=True)
def full_under_flow(bench: Bench, rng: random.Random) -> Struck:
    name, room = undone(bench, rng), _room(rng)
    with bench.full(room):
        ended = bench.flow().wait()
    by = rng.choice(["dvc", "flow"])
    return Struck(f"{name} and on, {room // 1024} KB left", ended, {0, 74}, struck=ended.code != 0, by=by)


@fault("a read-only folder under a stage", 8, mounts=True)
def read_only_under_stage(bench: Bench, rng: random.Random) -> Struck:
    name = any_stage(bench, rng)
    bench.forget({name})
    place = (bench.repo / bench.reference.outs(name)[0]).parent
    with bench.read_only(place):
        ended = bench.stage(name).wait()
    return Struck(f"{name}, {place.relative_to(bench.repo)}", ended, {74}, _clear(ended.said))


@fault("a read-only folder under dvc or the flow", 8, mounts=True)
def read_only_under_dvc(bench: Bench, rng: random.Random) -> Struck:
    name, place, flow = undone(bench, rng), rng.choice(PLACES), rng.random() < 0.3
    with bench.read_only(bench.repo / place):
        ended = (bench.flow() if flow else bench.dvc()).wait()
    detail = f"{name} and on by {'the flow' if flow else 'dvc'}, {place}"
    return Struck(detail, ended, {0, 74} if flow else None, struck=ended.code != 0)


def _clear(said: str) -> list[str]:
    """A fault of the disk is named as one, at the start of a line."""
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    words = ("No space left", "Read-only file system", "disk is full")
    return [] if any(word in line for line in lines for word in words) else [f"no clear line: {said[-300:]}"]
