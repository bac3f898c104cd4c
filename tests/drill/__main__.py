"""Run the fault injection tests.

python -m tests.drill --faults 100 --seed 0 1 2 3 4 [--only NAME] [--minutes M] [--write]

Full disks and read-only folders need private mounts: run it as root, or where users may create namespaces. The results
are written to .epigram/drill.jsonl. If a run is interrupted, the same command on the same commit continues it.
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

INSIDE = "EPIGRAM_DRILL_MOUNTS"  # 1 in a private mount namespace, 0 if none can be created


def main() -> int:
    """Inject the faults without a result, and print a line per trial and the table; return 1 if anything was lost."""
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
    """Restart in a private mount namespace, whose mounts disappear with the process."""
    if INSIDE in os.environ:
        return
    wrapper = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    possible = subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode == 0
    os.environ[INSIDE] = str(int(possible))
    command = [sys.executable, "-m", "tests.drill", *sys.argv[1:]]
    if possible:
        os.execvp(wrapper[0], [*wrapper, *command])


def _left_out(known: list[Fault], *, mounted: bool) -> list[str]:
    """Return the faults that cannot be injected here, and the reasons."""
    return [f"{fault.name} ({why})" for fault in known if (why := fault.left_out(mounted=mounted))]


if __name__ == "__main__":
    sys.exit(main())
