"""Parallel injection of faults: a lane has a place for each kind of repository and takes one fault at a time."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.drill.bench import Bench
from tests.drill.faults import Fault
from tests.drill.plan import Planned
from tests.drill.reference import prepare
from tests.drill.results import Results
from tests.drill.shop_bench import ShopBench
from tests.drill.shop_states import prepare_shop
from tests.drill.trial import Trial, run

SIDE_BY_SIDE = 2


@dataclass
class Lane:
    """The places of a lane; a place that no fault needs is None."""

    bench: Bench | None
    shop: ShopBench | None

    def run(self, planned: Planned) -> Trial:
        """Inject one fault and return the trial."""
        place = self.shop if planned.fault.shop else self.bench
        assert place is not None
        return run(place, planned.number, planned.fault, f"{planned.seed}-{planned.number}", planned.turn)

    def close(self) -> None:
        """Unmount the file systems."""
        for place in (self.bench, self.shop):
            if place:
                place.close()


@contextmanager
def lanes(folder: Path, server: str, faults: list[Fault], *, mounted: bool) -> Iterator[list[Lane]]:
    """Prepare the repositories that the faults need, both in parallel, and yield the lanes."""
    began, kinds = time.monotonic(), {fault.shop for fault in faults}
    with ThreadPoolExecutor(2) as pool:
        reference = pool.submit(prepare, folder, server) if False in kinds else None
        shop = pool.submit(prepare_shop, folder / "shop", server) if True in kinds else None
    ready = [
        Lane(
            reference and Bench(folder / f"bench-{n}", reference.result(), server, mounted=mounted),
            shop and ShopBench(folder / f"shop-{n}", shop.result(), server, mounted=mounted),
        )
        for n in range(SIDE_BY_SIDE)
    ]
    print(f"prepared in {time.monotonic() - began:.0f} s", flush=True)
    if shop:
        print(f"steps: {', '.join(f'{count} of {w.begin!r}' for w, count in shop.result().steps.items())}", flush=True)
    try:
        yield ready
    finally:
        for lane in ready:
            lane.close()


def inject(planned: list[Planned], ready: list[Lane], results: Results, minutes: float) -> None:
    """Inject every fault on the next free lane until the time is over or Ctrl-C; store each result at once."""
    free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
    for lane in ready:
        free.put(lane)
    end = time.monotonic() + minutes * 60

    def one(each: Planned) -> None:
        lane = free.get()
        try:
            if time.monotonic() < end:
                trial = lane.run(each)
                results.append(each.seed, trial)
                print(f"{each.seed}:{trial}", flush=True)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(ready)) as pool:
        waiting = [pool.submit(one, each) for each in planned]
        try:
            for done in as_completed(waiting):
                done.result()
        except KeyboardInterrupt:
            print("stopped: the trials at work still end", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
