"""Run the fault injection tests.

python -m tests.drill --faults 100 --seed 0 1 2 3 4 [--only NAME] [--minutes M] [--write]

Full disks and read-only folders need private mounts: run it as root, or where users may create namespaces. The results
are written to .epigram/drill.jsonl. If a run is interrupted, the same command on the same commit continues it.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from epigram.runner.service import server
from tests.drill.bench import Bench, prepare
from tests.drill.faults import FAULTS
from tests.drill.plan import Planned, Results, commit, plan, table, write
from tests.drill.trial import run

INSIDE = "EPIGRAM_DRILL_MOUNTS"  # 1 in a private mount namespace, 0 if none can be created
LANES = 2  # trials side by side


def main() -> int:
    """Inject the faults without a result, and print a line per trial and the table; return 1 if anything was lost."""
    options = _options()
    _own_mounts()
    mounted = os.environ[INSIDE] == "1"
    known = [fault for fault in FAULTS if re.search(options.only, fault.name)]
    reasons = {
        fault.name: fault.missing or "nothing can be mounted" * (fault.mounts and not mounted) for fault in known
    }
    usable = [fault for fault in known if not reasons[fault.name]]
    planned = [each for seed in options.seed for each in plan(usable, options.faults, seed)]
    results = Results(commit(), f"{options.faults} {options.only}".strip())
    left = results.left(planned)
    print(f"commit {results.commit}: {len(left)} of {len(planned)} faults to inject", flush=True)
    if left:
        with (
            tempfile.TemporaryDirectory(prefix="drill-") as folder,
            _lanes(Path(folder), mounted=mounted) as lanes,
        ):
            inject(left, lanes, results, options.minutes)
    found = results.read()
    text = table(found, results.commit, LANES, [f"{name} ({why})" for name, why in reasons.items() if why])
    print(f"\n{text}")
    if options.write:
        write(text)
    return int(any(result["trial"]["losses"] for result in found))


def inject(planned: list[Planned], lanes: list[Bench], results: Results, minutes: float) -> None:
    """Inject every fault on the next free lane until the time is over; store each result at once."""
    free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    for lane in lanes:
        free.put(lane)
    end = time.monotonic() + minutes * 60

    def one(each: Planned) -> None:
        lane = free.get()
        try:
            if time.monotonic() < end:
                trial = run(lane, each.number, each.fault, f"{each.seed}-{each.number}")
                results.append(each.seed, trial)
                print(f"{each.seed}:{trial}", flush=True)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        try:
            for _ in pool.map(one, planned):
                pass
        except KeyboardInterrupt:
            print("stopped: the trials at work still end", flush=True)
            pool.shutdown(cancel_futures=True)


@contextmanager
def _lanes(folder: Path, *, mounted: bool) -> Iterator[list[Bench]]:
    """Start a Prefect server, prepare the repository, and yield a place for each lane."""
    began = time.monotonic()
    with _serving(folder / "prefect") as api:
        reference = prepare(folder, api)
        lanes = [Bench(folder / f"bench-{number}", reference, api, mounted=mounted) for number in range(LANES)]
        print(f"prepared in {time.monotonic() - began:.0f} s", flush=True)
        try:
            yield lanes
        finally:
            for place in lanes:
                place.close()


@contextmanager
def _serving(home: Path) -> Iterator[str]:
    """Run a Prefect server with its database in `home`; yield the URL of its API."""
    os.environ["PREFECT_HOME"] = str(home)
    os.environ.pop(server.API_URL, None)
    api = server.start()
    try:
        api.wait()
        yield os.environ.pop(server.API_URL)
    finally:
        api.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="faults for each seed; with 0 and --write, none")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--only", default="", help="faults whose name matches this regular expression")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no fault after so many minutes")
    parser.add_argument(
        "--write", action="store_true", help="put the table of all parts of this commit into docs/reliability.md"
    )
    return parser.parse_args()


def _own_mounts() -> None:
    """Restart in a private mount namespace, whose mounts disappear with the process."""
    if INSIDE in os.environ:
        return
    wrapper = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    possible = subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode == 0
    os.environ[INSIDE] = str(int(possible))
    if possible:
        os.execvp(wrapper[0], [*wrapper, sys.executable, "-m", "tests.drill", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
