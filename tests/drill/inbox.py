"""Faults of the retraining inbox: files that change, and kill -9, during the ingestion of rows."""

from __future__ import annotations

import os
import random
import re
import signal
from collections import Counter
from pathlib import Path

import polars as pl

from tests.drill.checks import after_fault, held_locks, partial_files, tail
from tests.drill.evidence import answered
from tests.drill.faults import Injection, shop_fault
from tests.drill.shop import CROWNED, TAKING
from tests.drill.shop_bench import INBOX, ShopBench
from tests.drill.standing import lost, settled
from tests.support.shop import reviews

NAME = "batch.csv"
# A file that changes while it is read may be left for the next retraining.
AGAIN = re.compile(rf"^error: .*{re.escape(NAME)} changed .* next retraining", re.MULTILINE)


@shop_fault("a file renamed onto a waiting file of the inbox", 5)
def renamed(bench: ShopBench, rng: random.Random) -> Injection:
    """Rename a second file to the name of a first one that is not archived yet.

    If the first file still has its name, it is overwritten, so its rows need not be in the data set.
    """
    bench.begin(CROWNED)
    first, second = (_batch(rng) for _ in range(2))
    waiting = bench.arrive(NAME, first)
    stopped, replaced = bench.stop(TAKING), waiting.exists()
    observed = bool(stopped.step) and not (waiting.parent / "taken" / NAME).exists()
    bench.arrive(NAME, second)
    ended = stopped.resume()
    recovery = lambda: _taken(bench, [second] if replaced else [first, second])  # noqa: E731
    return Injection(f"{stopped}{', replaced' * replaced}", observed, ended, {0}, recovery=recovery)


@shop_fault("rows appended to a file of the inbox", 6)
def appended(bench: ShopBench, rng: random.Random) -> Injection:
    """Append rows by a process that has the file open, wherever the file is moved meanwhile.

    Appending to an archived file is not counted as a fault. A file is archived only after it was read for the last
    time.
    """
    bench.begin(CROWNED)
    first, second = (_batch(rng) for _ in range(2))
    with bench.arrive(NAME, first).open("ab") as writer:
        stopped = bench.stop(TAKING)
        place = Path(os.readlink(f"/proc/self/fd/{writer.fileno()}"))  # noqa: PTH115  the file may be renamed by now
        archived = place.parent.name == "taken" and not stopped.step.startswith("read ")
        observed = bool(stopped.step) and not archived
        if observed:
            writer.write(second.write_csv(include_header=False).encode())
    ended = stopped.resume()
    losses = [f"no clear line: {tail(ended)}"] if ended.code and not AGAIN.search(ended.said) else []
    recovery = lambda: _taken(bench, [first, second] if observed else [first])  # noqa: E731
    detail = f"{stopped}, {place.relative_to(bench.repo)}"
    return Injection(detail, observed, ended, {0, 65, 75}, losses, recovery=recovery)


@shop_fault("kill -9 between two steps of taking rows in", 5)
def killed(bench: ShopBench, rng: random.Random) -> Injection:
    bench.begin(CROWNED)
    rows = _batch(rng)
    bench.arrive(NAME, rows)
    stopped = bench.stop(TAKING)
    sent, ended = stopped.running.send(signal.SIGKILL), stopped.running.wait()
    observed = bool(stopped.step) and answered(sent, ended, {-9})
    return Injection(str(stopped), observed, ended, {0, -9}, recovery=lambda: _taken(bench, [rows]))


def _batch(rng: random.Random) -> pl.DataFrame:
    """Return new rows that no other batch contains."""
    return reviews(20, "slang", seed=rng.randrange(1 << 30))


def _taken(bench: ShopBench, batches: list[pl.DataFrame]) -> list[str]:
    """Retrain again; return losses unless every row is in the data set once, no file waits and nothing is lost."""
    known = bench.known()
    ended = bench.retrain().wait()
    losses = [f"the next retraining: {loss}" for loss in after_fault(bench, ended, {0})]
    losses += row_losses(known, [text for batch in batches for text in batch["review"]], bench.known())
    losses += [f"still in the inbox: {name}" for name in waiting(bench)]
    return losses + lost(bench.repo, bench.before) + settled(bench.repo) + partial_files(bench) + held_locks(bench)


def row_losses(known: list[str], sent: list[str], now: list[str]) -> list[str]:
    """Return a loss if a text that was known or sent is missing, or if a text is there twice."""
    there = Counter(now)
    counts = {
        "rows that arrived are lost": sum(text not in there for text in sent),
        "rows are gone from the data set": sum(text not in there for text in known),
        "texts were taken twice": sum(count > 1 for count in there.values()),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def waiting(bench: ShopBench) -> list[str]:
    """Return the files of the inbox that are not archived."""
    folder = bench.repo / INBOX
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path) for path in files if path.parts[0] != "taken")
