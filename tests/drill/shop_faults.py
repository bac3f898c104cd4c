"""Table of faults of retraining: the inbox, the champion and the names of runs.

A command is stopped before one of its steps; the turns of a kind cover all steps of its window.
"""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from signal import SIGCONT, SIGKILL

import polars as pl

from tests.drill.checks import after_fault, leftovers, row_losses, tail, unclear
from tests.drill.faults import DISK_FULL, Fault, Injection
from tests.drill.shop import (
    BATCH,
    BROKEN,
    CROWNED,
    INBOX,
    NAMING,
    OVERRIDES,
    PROMOTED,
    PROMOTING,
    RESTORING,
    ROLLING_BACK,
    TAKING,
    ShopBench,
    Stopped,
    Window,
    reviews,
)
from tests.drill.standing import in_use, lost, record, settled, whole_runs

NAME = "batch.csv"
# A file that changes while it is read may be left for the next retraining.
AGAIN = re.compile(rf"^error: .*{re.escape(NAME)} changed .* next retraining", re.MULTILINE)
REPORT = re.compile(r"report: runs/(\S+)/report\.html")
STARTED = re.compile(r"\d{8}-\d{6}")  # start time in the name of a run
TRIES = 4
PAGE = 4096  # bytes; tmpfs allocates whole pages


def renamed(bench: ShopBench, rng: random.Random) -> Injection:
    """Rename a second file to the name of a first one that is not archived yet.

    If the first file still has its name, it is overwritten, so its rows need not be in the data set.
    """
    bench.begin(CROWNED)
    first, second = _batch(rng), _batch(rng)
    waiting = bench.arrive(NAME, first)
    stopped, replaced = bench.stop(TAKING), waiting.exists()
    observed = bool(stopped.step) and not (waiting.parent / "taken" / NAME).exists()
    bench.arrive(NAME, second)
    ended = stopped.resume()
    recovery = lambda: taken(bench, [second] if replaced else [first, second])  # noqa: E731
    return Injection(f"{stopped}{', replaced' * replaced}", observed, ended, {0}, recovery=recovery)


def appended(bench: ShopBench, rng: random.Random) -> Injection:
    """Append rows by a process that has the file open, wherever the file is moved meanwhile.

    Appending to an archived file is not counted as a fault. A file is archived only after it was read for the last
    time.
    """
    bench.begin(CROWNED)
    first, second = _batch(rng), _batch(rng)
    with bench.arrive(NAME, first).open("ab") as writer:
        stopped = bench.stop(TAKING)
        place = Path(os.readlink(f"/proc/self/fd/{writer.fileno()}"))  # noqa: PTH115  the file may be renamed by now
        archived = place.parent.name == "taken" and not stopped.step.startswith("read ")
        observed = bool(stopped.step) and not archived
        if observed:
            writer.write(second.write_csv(include_header=False).encode())
    ended = stopped.resume()
    losses = [f"no clear line: {tail(ended)}"] if ended.code and not AGAIN.search(ended.said) else []
    recovery = lambda: taken(bench, [first, second] if observed else [first])  # noqa: E731
    return Injection(f"{stopped}, {place.name}", observed, ended, {0, 65, 75}, losses, recovery=recovery)


def taking_killed(bench: ShopBench, rng: random.Random) -> Injection:
    bench.begin(CROWNED)
    rows = _batch(rng)
    bench.arrive(NAME, rows)
    stopped = bench.stop(TAKING)
    sent, ended = stopped.running.send(SIGKILL), stopped.running.wait()
    observed = bool(stopped.step) and sent and ended.code == -9
    return Injection(str(stopped), observed, ended, {0, -9}, recovery=lambda: taken(bench, [rows]))


def _batch(rng: random.Random) -> pl.DataFrame:
    """Return new rows that no other batch contains."""
    return reviews(20, "slang", seed=rng.randrange(1 << 30))


def taken(bench: ShopBench, batches: list[pl.DataFrame]) -> list[str]:
    """Retrain again; return losses unless every row is in the data set once, no file waits and nothing is lost."""
    known = bench.known()
    losses = [f"the next retraining: {loss}" for loss in after_fault(bench, bench.retrain().wait(), {0})]
    losses += row_losses(known, [text for batch in batches for text in batch["review"]], bench.known())
    files = [path.relative_to(bench.repo / INBOX) for path in (bench.repo / INBOX).rglob("*") if path.is_file()]
    losses += [f"still in the inbox: {path}" for path in sorted(files) if path.parts[0] != "taken"]
    return losses + kept(bench)


def kept(bench: ShopBench) -> list[str]:
    """Return everything that was lost since the trial began."""
    return lost(bench.repo, bench.before) + settled(bench.repo) + leftovers(bench)


def promotion_killed(bench: ShopBench, rng: random.Random) -> Injection:
    _waiting(bench)
    return _killed(bench, bench.stop(PROMOTING), PROMOTING)


def rollback_killed(bench: ShopBench, rng: random.Random) -> Injection:
    """Kill a rollback; every other time, the model to restore was deleted and is taken from DVC's cache."""
    bench.begin(PROMOTED)
    window = (ROLLING_BACK, RESTORING)[bench.turn % 2]
    if window == RESTORING:
        bench.delete_first_model()
    return _killed(bench, bench.stop(window, turn=bench.turn // 2), window)


def promotion_without_space(bench: ShopBench, rng: random.Random) -> Injection:
    _waiting(bench)
    stopped, room = bench.stop(PROMOTING), PAGE * rng.choice([0, 0, 0, 1, 2])
    with bench.full(room):
        ended = stopped.resume()
    losses = (unclear(ended, *DISK_FULL) if ended.code else []) + _between(bench)
    observed = bool(stopped.step and ended.code)  # with enough space, it succeeds
    detail = f"{stopped}, {room // 1024} KB left"
    return Injection(detail, observed, ended, {0, 74}, losses, recovery=lambda: completed(bench, PROMOTING))


def _waiting(bench: ShopBench) -> None:
    """Begin with a first champion and the rows of the second."""
    bench.begin(CROWNED)
    bench.arrive(BATCH, reviews(300, "slang", seed=1))


def _killed(bench: ShopBench, stopped: Stopped, window: Window) -> Injection:
    sent, ended = stopped.running.send(SIGKILL), stopped.running.wait()
    observed = bool(stopped.step) and sent and ended.code == -9
    recovery = lambda: _between(bench) + completed(bench, window)  # noqa: E731
    return Injection(f"{stopped} {window.variant}", observed, ended, {0, -9}, recovery=recovery)


def _between(bench: ShopBench) -> list[str]:
    """Return losses right after the fault unless a complete model is in use and everything earlier still exists."""
    losses = in_use(bench.repo, set(bench.shop.models.values())) + lost(bench.repo, bench.before)
    return [f"after the fault: {loss}" for loss in losses]


def completed(bench: ShopBench, window: Window) -> list[str]:
    """Repeat the interrupted command unless git shows that it finished; return losses unless the champion is right."""
    back = window != PROMOTING
    number = 3 if back else 2
    # A finished rollback is not repeated: it would go back one more champion.
    again = ("--show",) if back and record(bench.repo).get("number") == number else window.arguments
    losses = [f"the next run: {loss}" for loss in after_fault(bench, bench.retrain(*again).wait(), {0})]
    losses += settled(bench.repo, number, bench.shop.models[1 if back else 2])
    return losses + lost(bench.repo, bench.before) + leftovers(bench)


def same_second(bench: ShopBench, rng: random.Random) -> Injection:
    """Start two runs in the same second; try again if the second has passed before both had their names."""
    bench.begin(CROWNED)
    seen, losses, hit = [], [], False
    while len(seen) < TRIES and not (losses or hit):
        runs = [bench.stop(NAMING, *override) for override in rng.sample(OVERRIDES, 2)]
        time.sleep(1 - time.time() % 1 + 0.05)  # both continue as a second begins
        for run in runs:
            run.running.send(SIGCONT)
        ended = [run.running.wait() for run in runs]
        names = [found[1] for each in ended if (found := REPORT.search(each.said))]
        losses += [loss for each in ended for loss in after_fault(bench, each, {0})] + whole_runs(bench.repo, names)
        seconds = [found[0] for name in names if (found := STARTED.search(name))]
        hit = len(seconds) == 2 and len(set(seconds)) == 1
        seen.append(", ".join(names))
    return Injection("; ".join(seen), hit, losses=losses, recovery=lambda: kept(bench))


def named_as_champion(bench: ShopBench, rng: random.Random) -> Injection:
    return _named(bench, rng.choice([(), rng.choice(OVERRIDES)]), rng)


def failed_as_champion(bench: ShopBench, rng: random.Random) -> Injection:
    return _named(bench, ("--dataset", BROKEN), rng)


def _named(bench: ShopBench, arguments: tuple[str, ...], rng: random.Random) -> Injection:
    """Start a run with the champion's run name: it must be refused in one line with that name, before any change."""
    bench.begin(rng.choice([CROWNED, PROMOTED]))
    name = str((bench.repo / "runs/champion").readlink())
    ended = bench.pipeline("--name", name, *arguments).wait()
    losses = unclear(ended, name) if ended.code else []
    observed = name in ended.said or bool(lost(bench.repo, bench.before))
    detail = " ".join(arguments) or "no overrides"
    return Injection(detail, observed, ended, {64}, losses, recovery=lambda: kept(bench))


SHOP_FAULTS = [
    Fault("a file renamed onto a waiting file of the inbox", renamed, percent=5, shop=True),
    Fault("rows appended to a file of the inbox", appended, percent=6, shop=True),
    Fault("kill -9 between two steps of taking rows in", taking_killed, percent=5, shop=True),
    Fault("kill -9 between two steps of a promotion", promotion_killed, percent=8, shop=True),
    Fault("kill -9 between two steps of a rollback", rollback_killed, percent=8, shop=True),
    Fault("disk full under a promotion", promotion_without_space, percent=6, shop=True, mounts=True),
    Fault("two runs in one second", same_second, percent=6, shop=True),
    Fault("a run named as the champion's", named_as_champion, percent=5, shop=True),
    Fault("a run that fails, named as the champion's", failed_as_champion, percent=5, shop=True),
]
