"""Program for several processes, which `launch` starts: python -m tests.support.launched FOLDER CASE.

Each process writes its process id to FOLDER/RANK. CASE is what happens then: `fail`, `memory` and `kill` happen to the
process with rank 1 while the others wait for it; in `alone`, it fails while the others compute, and in `deaf`, they
ignore signals as well; in `wait`, all run until they get a signal.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from epigram.core.errors import SourceUnavailableError
from epigram.process.exits import handle_errors
from epigram.process.stage_process import run_stage


@handle_errors
def main() -> None:
    """Join the others, and do what the case says."""
    from epigram.training.distributed import parallel

    folder, case = sys.argv[1:]
    with parallel.process_group():
        rank = parallel.rank()
        Path(folder, f"{rank}.tmp").write_text(str(os.getpid()))
        Path(folder, f"{rank}.tmp").rename(Path(folder, str(rank)))
        print(f"rank {rank} of {parallel.processes()}")
        print(f"warning of rank {rank}", file=sys.stderr)
        if case == "deaf" and rank == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if rank == 1:
            happen(case)
        while case in {"wait", "alone", "deaf"}:
            time.sleep(0.01)
        parallel.wait_for_all()


def happen(case: str) -> None:
    """End this process as the case says."""
    if case in {"fail", "alone", "deaf"}:
        raise SourceUnavailableError("no network\nsecond line")
    if case == "memory":
        raise MemoryError
    if case == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run_stage(main)
