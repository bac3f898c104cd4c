"""Faults during the replacement of a champion: kill -9 between two steps, and a full disk."""

from __future__ import annotations

import random
import signal

from tests.drill.checks import after_fault, held_locks, partial_files
from tests.drill.disks import unclear
from tests.drill.evidence import DISK_FULL, answered
from tests.drill.faults import Injection, shop_fault
from tests.drill.shop import CHALLENGED, PROMOTED, PROMOTING, RESTORING, ROLLING_BACK, Window
from tests.drill.shop_bench import ShopBench, Stopped
from tests.drill.standing import in_use, lost, record, settled

PAGE = 4096  # bytes; tmpfs allocates whole pages


@shop_fault("kill -9 between two steps of a promotion", 8)
def promotion_killed(bench: ShopBench, rng: random.Random) -> Injection:
    bench.begin(CHALLENGED)
    return _killed(bench, bench.stop(PROMOTING), PROMOTING)


@shop_fault("kill -9 between two steps of a rollback", 8)
def rollback_killed(bench: ShopBench, rng: random.Random) -> Injection:
    """Kill a rollback; every other time, the model to restore was deleted and is taken from DVC's cache."""
    bench.begin(PROMOTED)
    window = (ROLLING_BACK, RESTORING)[bench.turn % 2]
    if window == RESTORING:
        bench.delete_first_model()
    return _killed(bench, bench.stop(window, turn=bench.turn // 2), window)


@shop_fault("disk full under a promotion", 6, mounts=True)
def promotion_without_space(bench: ShopBench, rng: random.Random) -> Injection:
    bench.begin(CHALLENGED)
    stopped, room = bench.stop(PROMOTING), PAGE * rng.choice([0, 0, 0, 1, 2])
    with bench.full(room):
        ended = stopped.resume()
    between = _between(bench)
    observed = bool(stopped.step and ended.code)  # with enough space, it succeeds
    losses = unclear(ended, DISK_FULL) if ended.code else []
    detail = f"{stopped}, {room // 1024} KB left"
    recovery = lambda: _completed(bench, PROMOTING)  # noqa: E731
    return Injection(detail, observed, ended, {0, 74}, losses + between, recovery=recovery)


def _killed(bench: ShopBench, stopped: Stopped, window: Window) -> Injection:
    sent, ended = stopped.running.send(signal.SIGKILL), stopped.running.wait()
    observed = bool(stopped.step) and answered(sent, ended, {-9})
    recovery = lambda: _between(bench) + _completed(bench, window)  # noqa: E731
    detail = f"{stopped}, {window.variant}" if window.variant else str(stopped)
    return Injection(detail, observed, ended, {0, -9}, recovery=recovery)


def _between(bench: ShopBench) -> list[str]:
    """Return losses right after the fault unless a complete model is in use and everything earlier still exists."""
    losses = in_use(bench.repo, set(bench.shop.models.values())) + lost(bench.repo, bench.before)
    return [f"after the fault: {loss}" for loss in losses]


def _completed(bench: ShopBench, window: Window) -> list[str]:
    """Repeat the interrupted command unless git shows that it finished; return losses unless the champion is right."""
    back = window != PROMOTING
    number = 3 if back else 2
    # A finished rollback is not repeated: it would go back one more champion.
    again = ("--show",) if back and record(bench.repo).get("number") == number else window.arguments
    ended = bench.retrain(*again).wait()
    losses = [f"the next run: {loss}" for loss in after_fault(bench, ended, {0})]
    losses += settled(bench.repo, number, bench.shop.models[1 if back else 2])
    return losses + lost(bench.repo, bench.before) + partial_files(bench) + held_locks(bench)
