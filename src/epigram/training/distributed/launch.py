"""Start of torchrun in a stage's process, for the processes that train one model together on this machine.

torchrun alone would replace the exit code of a failed process by 1 and its message by a report of all processes.
Therefore each process writes its outcome and its errors to a folder, and the stage reports the first failure.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.process.display import echo
from epigram.process.outcome import OUTCOME_FILE, read_outcome
from epigram.process.signals import ENDINGS, handle_signals, raise_interrupt
from epigram.process.stage_process import PARENT
from epigram.training.distributed.parallel import PEER_ENDED

HOST = "127.0.0.1"
STEP_SECONDS = 86_400  # time limit of the last step or evaluation and checkpoint after a signal


def launch(module: str, arguments: Sequence[str], processes: int) -> None:
    """Run `python -m module arguments` in several `processes`, the first of which prints, and wait for them.

    SIGTERM and Ctrl-C are passed on to all of them. If one fails, all are terminated. Raises SystemExit with the
    exit code of the process that failed first, after its error message.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with TemporaryDirectory(prefix="epigram-") as folder:
        redirects = {rank: Std.ALL if rank else Std.ERR for rank in range(processes)}
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id="train",
            rdzv_backend="c10d",
            rdzv_endpoint=f"{HOST}:0",  # a free port
            local_addr=HOST,
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder, redirects=redirects),
            signals_to_handle="SIGTERM,SIGINT",
            shutdown_timeout=STEP_SECONDS,
        )
        code = 0
        try:
            with _environment(Path(folder)), handle_signals(raise_interrupt, signal.SIGTERM, signal.SIGINT):
                elastic_launch(config, sys.executable)("-m", module, *arguments)
        except ChildFailedError as error:
            code = error.get_first_failure()[1].exitcode
        except SignalException as error:
            code = -error.sigval
        code = _report(Path(folder), code)
    if code:
        sys.exit(code)


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Set the variables of the processes, and print no messages of torchrun, which the outcomes replace.

    The level hides a warning of DistributedDataParallel about batches that use all parameters.
    """
    defaults = {"TORCH_CPP_LOG_LEVEL": "ERROR"} | ({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {})
    before = dict(os.environ)
    os.environ.update({**defaults, **before, OUTCOME_FILE: str(folder / "outcomes"), PARENT: str(os.getpid())})
    (folder / "outcomes").mkdir()
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        os.environ.clear()
        os.environ.update(before)


def _report(folder: Path, code: int) -> int:
    """Print the errors of the process that failed first, or else of the process with rank 0; return its exit code.

    `code` is the exit code that torchrun has seen, negative for a signal. Raises KeyboardInterrupt or Terminated if a
    signal has ended a process before it could write its outcome.
    """
    failed = min(folder.glob("outcomes/*"), key=_order, default=None) if code else None
    rank = "0" if failed is None else failed.name
    for errors in folder.glob(f"*/*/{rank}/stderr.log"):
        if text := errors.read_text(encoding="utf-8", errors="replace").rstrip("\n"):
            echo(text, file=sys.stderr)
    if failed is not None and (outcome := read_outcome(failed)):
        outcome.write()
        return outcome.code
    if -code in ENDINGS:
        raise_interrupt(-code)
    return code if code >= 0 else 128 - code


def _order(file: Path) -> tuple[bool, float]:
    """Return the sort key of an outcome: a process that failed because another one had ended comes last."""
    outcome = read_outcome(file)
    return outcome is None or outcome.summary == PEER_ENDED, file.stat().st_mtime
