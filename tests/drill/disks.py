"""Disk faults: a full disk with a random number of bytes left, and a read-only folder."""

from __future__ import annotations

import random

from tests.drill.bench import Bench
from tests.drill.evidence import DISK_FULL, READ_ONLY, mentions
from tests.drill.faults import Injection, any_stage, fault, undone
from tests.drill.place import Ended

PLACES = (".", "data", "data/models", "data/encoded", ".dvc", ".dvc/cache", ".dvc/tmp", ".epigram", "runs")


def _room(rng: random.Random) -> int:
    """Return a random number of free bytes, uniform on a logarithmic scale."""
    return int(4096 * 2 ** rng.uniform(0, 11))


@fault("disk full under a stage", 14, mounts=True)
def full_under_stage(bench: Bench, rng: random.Random) -> Injection:
    name, room = any_stage(bench, rng), _room(rng)
    bench.forget({name})
    with bench.full(room):
        ended = bench.stage(name).wait()
    losses = unclear(ended, DISK_FULL) if ended.code else []
    return Injection(f"{name}, {room // 1024} KB left", mentions(ended, DISK_FULL), ended, {0, 74}, losses)


@fault("disk full under dvc", 12, mounts=True)
def full_under_dvc(bench: Bench, rng: random.Random) -> Injection:
    name, room = undone(bench, rng), _room(rng)
    with bench.full(room):
        ended = bench.dvc().wait()
    return Injection(f"{name} and on, {room // 1024} KB left", mentions(ended, DISK_FULL), ended)


@fault("disk full under the flow", 4, mounts=True)
def full_under_flow(bench: Bench, rng: random.Random) -> Injection:
    name, room = undone(bench, rng), _room(rng)
    with bench.full(room):
        ended = bench.flow().wait()
    detail, by = f"{name} and on, {room // 1024} KB left", rng.choice(["dvc", "flow"])
    return Injection(detail, mentions(ended, DISK_FULL), ended, {0, 74}, by=by)


@fault("a read-only folder under a stage", 8, mounts=True)
def read_only_under_stage(bench: Bench, rng: random.Random) -> Injection:
    name = any_stage(bench, rng)
    bench.forget({name})
    place = (bench.repo / bench.reference.outs(name)[0]).parent
    with bench.read_only(place):
        ended = bench.stage(name).wait()
    detail = f"{name}, {place.relative_to(bench.repo)}"
    return Injection(detail, mentions(ended, READ_ONLY), ended, {74}, unclear(ended, READ_ONLY))


@fault("a read-only folder under dvc or the flow", 8, mounts=True)
def read_only_under_dvc(bench: Bench, rng: random.Random) -> Injection:
    name, place, flow = undone(bench, rng), rng.choice(PLACES), rng.random() < 0.3
    with bench.read_only(bench.repo / place):
        ended = (bench.flow() if flow else bench.dvc()).wait()
    detail = f"{name} and on by {'the flow' if flow else 'dvc'}, {place}"
    return Injection(detail, mentions(ended, READ_ONLY), ended, {0, 74} if flow else None)


def unclear(ended: Ended, words: tuple[str, ...]) -> list[str]:
    """Return a loss unless a line that starts with "error: " names the fault."""
    lines = [line for line in ended.said.splitlines() if line.startswith("error: ")]
    return [] if any(word in line for line in lines for word in words) else [f"no clear line: {ended.said[-300:]}"]
