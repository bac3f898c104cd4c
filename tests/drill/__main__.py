"""Run the drill: python -m tests.drill --faults 100 --seed 0 1 2 3 4 [--only NAME] [--minutes M] [--write]

It needs mounts of its own for full disks and read-only folders: as root, or where users may have name spaces. Results
go to .pithy/drill.jsonl: the same command goes on where the last one of the same commit was cut off.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.drill import damage, disks, inbox, kills, limits, names, promotion, races, sources  # noqa: F401  they register
from tests.drill.faults import FAULTS, Fault
from tests.drill.lanes import inject, lanes
from tests.drill.plan import plan
from tests.drill.report import about, table, write
from tests.drill.results import Results
from tests.drill.server import serving

INSIDE = "PITHY_DRILL_MOUNTS"  # 1 in a name space of our own, 0 where there can be none


def main() -> int:
    """Inject the faults that have no result yet, print a line a trial and the table; 1 where anything was lost."""
    options = _options()
    _own_mounts()
    mounted = os.environ[INSIDE] == "1"
    known = [fault for fault in FAULTS.values() if re.search(options.only, fault.name)]
    planned = [each for seed in options.seed for each in plan(known, options.faults, seed, mounted=mounted)]
    tested = about(_left_out(known, mounted=mounted))
    results = Results(tested.commit, f"{options.faults} {options.only}".strip())
    left = results.left(planned)
    print(f"commit {tested.commit}: {len(left)} of {len(planned)} faults to inject", flush=True)
    if left:
        with (
            tempfile.TemporaryDirectory(prefix="drill-") as folder,
            serving(Path(folder) / "prefect") as server,
            lanes(Path(folder), server, [each.fault for each in left], mounted=mounted) as ready,
        ):
            inject(left, ready, results, options.minutes)
    found = results.read()
    text = table(found, tested)
    print(f"\n{text}")
    if options.write:
        write(text)
    return int(any(result.trial.losses for result in found))


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
    """Start again in a name space whose mounts end with the drill, however it ends."""
    if INSIDE in os.environ:
        return
    wrapper = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    possible = subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode == 0
    os.environ[INSIDE] = str(int(possible))
    command = [sys.executable, "-m", "tests.drill", *sys.argv[1:]]
    if possible:
        os.execvp(wrapper[0], [*wrapper, *command])


def _left_out(known: list[Fault], *, mounted: bool) -> list[str]:
    """The faults that cannot be injected here, and why."""
    return [f"{fault.name} ({why})" for fault in known if (why := fault.left_out(mounted=mounted))]


if __name__ == "__main__":
    sys.exit(main())
