"""Run the drill: python -m tests.drill --faults 200 --seed 0 [--only NAME] [--write]

It needs mounts of its own for full disks and read-only folders: as root, or where users may have name spaces.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.drill import damage, disks, kills, limits, races, sources  # noqa: F401  they register their faults
from tests.drill.bench import Bench
from tests.drill.faults import FAULTS, Fault
from tests.drill.reference import prepare
from tests.drill.report import about, table, write
from tests.drill.server import serving
from tests.drill.trial import Trial, run

INSIDE = "PITHY_DRILL_MOUNTS"  # 1 in a name space of our own, 0 where there can be none
SIDE_BY_SIDE = 2


def main() -> int:
    """Inject the faults, print a line a trial and the table; 1 where anything was lost."""
    options = _options()
    _own_mounts()
    mounted = os.environ[INSIDE] == "1"
    known = [fault for fault in FAULTS.values() if options.only in fault.name]
    plan = _plan(known, options.faults, random.Random(options.seed), mounted=mounted)
    tested, began = about(options.seed, _left_out(known, mounted=mounted)), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="drill-") as folder, serving(Path(folder) / "prefect") as server:
        reference = prepare(Path(folder), server)
        print(f"reference run: {sum(reference.seconds.values()):.0f} s by dvc; {len(plan)} faults", flush=True)
        benches = [Bench(Path(folder) / f"bench-{n}", reference, server, mounted=mounted) for n in range(SIDE_BY_SIDE)]
        try:
            trials = _inject(plan, benches, options.seed)
        finally:
            for bench in benches:
                bench.close()
    text = table(trials, time.monotonic() - began, tested)
    print(f"\n{text}")
    if options.write:
        write(text)
    return int(any(trial.losses for trial in trials))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    return parser.parse_args()


def _own_mounts() -> None:
    """Start again in a name space whose mounts end with the drill, however it ends."""
    if INSIDE in os.environ:
        return
    wrapper = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    possible = subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode == 0
    os.environ[INSIDE] = str(int(possible))
    command = [sys.executable, "-m", "tests.drill", *sys.argv[1:]]
    if possible:
        os.execvp(wrapper[0], [*wrapper, *command])


def _plan(known: list[Fault], count: int, rng: random.Random, *, mounted: bool) -> list[Fault]:
    """So many faults in random order: each once before any is drawn again, by its weight."""
    usable = [fault for fault in known if not fault.left_out(mounted=mounted)]
    drawn = rng.choices(usable, [fault.weight for fault in usable], k=count)
    plan = [*rng.sample(usable, len(usable)), *drawn][:count]
    rng.shuffle(plan)
    return plan


def _left_out(known: list[Fault], *, mounted: bool) -> list[str]:
    """The faults that cannot be injected here, and why."""
    return [f"{fault.name} ({why})" for fault in known if (why := fault.left_out(mounted=mounted))]


def _inject(plan: list[Fault], benches: list[Bench], seed: int) -> list[Trial]:
    """Every fault of the plan once, on whichever bench is free; after Ctrl-C, what was found until then."""
    free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    for bench in benches:
        free.put(bench)

    def inject(number: int, fault: Fault) -> Trial:
        bench = free.get()
        try:
            return run(bench, number, fault, f"{seed}-{number}")
        finally:
            free.put(bench)

    trials: list[Trial] = []
    with ThreadPoolExecutor(len(benches)) as pool:
        waiting = [pool.submit(inject, number, fault) for number, fault in enumerate(plan, 1)]
        try:
            for done in as_completed(waiting):
                trials.append(done.result())
                print(trials[-1], flush=True)
        except KeyboardInterrupt:
            print("stopped: the trials at work still end", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    return trials


if __name__ == "__main__":
    sys.exit(main())
