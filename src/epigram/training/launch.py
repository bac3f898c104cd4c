"""Start of the processes that train one model together on this machine.

They get the variables of torchrun (RANK, WORLD_SIZE, …), so a stage does not know who has started it. torchrun itself
would replace the exit code of a failed process by 1 and its message by a report of all processes, and would stop the
others before they have written a checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from torch import distributed

from epigram.core.display import echo
from epigram.core.outcome import OUTCOME_FILE, read_outcome
from epigram.core.signals import ENDINGS, handle_signals, raise_interrupt
from epigram.core.stage_process import PARENT
from epigram.training.parallel import PEER_ENDED

HOST = "127.0.0.1"
INTERVAL = 0.05  # seconds between two looks at the processes
GRACE_PERIOD = 20.0  # seconds from the failure of a process until the others are killed


def launch(module: str, arguments: Sequence[str], processes: int) -> None:
    """Run `python -m module arguments` in several `processes`, the first of which prints, and wait for them.

    SIGTERM and Ctrl-C are passed on to all of them. If one fails, the others are terminated. Raises SystemExit with the
    exit code of the process that failed first, after its error message.
    """
    with TemporaryDirectory(prefix="epigram-") as folder:
        group = ProcessGroup(Path(folder), processes)
        # as torchrun: on a free port
        store = distributed.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        with handle_signals(group.forward, signal.SIGTERM, signal.SIGINT):
            try:
                group.start([sys.executable, "-m", module, *arguments], store.port)
                group.wait()
            finally:
                group.kill()
        if code := group.report():
            sys.exit(code)


class ProcessGroup:
    """Processes of one training; the outcome and the errors of each are files in `folder`."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        self.children: list[subprocess.Popen[bytes]] = []
        self.received: list[int] = []  # signals before all processes had started

    def start(self, command: Sequence[str], port: int) -> None:
        """Start the processes, whose store listens on `port`; only the first one prints."""
        with ExitStack() as files:
            for rank in range(self.size):
                child = subprocess.Popen(
                    command,
                    env=self._environment(rank, port),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL if rank else None,
                    stderr=files.enter_context(self._errors(rank).open("wb")),
                    process_group=0,  # so that they get Ctrl-C once, from `forward`
                )
                self.children.append(child)
        for number in self.received:
            self._send(number)

    def forward(self, number: int, frame: FrameType | None = None) -> None:
        """Pass a signal on to all processes."""
        if len(self.children) < self.size:
            self.received.append(number)
        else:
            self._send(number)

    def wait(self) -> None:
        """Wait for the end of all processes, or for that of the grace period after a failure."""
        deadline = float("inf")
        while None in (codes := [child.poll() for child in self.children]) and time.monotonic() < deadline:
            if any(codes) and deadline == float("inf"):
                deadline = time.monotonic() + GRACE_PERIOD
                self._send(signal.SIGTERM)
            time.sleep(INTERVAL)

    def kill(self) -> None:
        """Kill the processes that are left."""
        self._send(signal.SIGKILL)
        for child in self.children:
            child.wait()

    def report(self) -> int:
        """Print what the process that failed first, or else the first one, wrote to stderr; return its exit code.

        Raises KeyboardInterrupt or Terminated if a signal ended it before it could handle signals.
        """
        failed = [rank for rank, child in enumerate(self.children) if child.returncode]
        rank = min(failed, key=self._order, default=0)
        if text := self._errors(rank).read_text(encoding="utf-8", errors="replace").rstrip("\n"):
            echo(text, file=sys.stderr)
        code = self.children[rank].returncode
        if -code in ENDINGS:
            raise_interrupt(-code)
        if code and (outcome := read_outcome(self._outcome(rank))):
            outcome.write()
        return code if code >= 0 else 128 - code

    def _order(self, rank: int) -> tuple[bool, float]:
        """Return the key of a failed process: those that failed because another one had ended come last."""
        outcome = read_outcome(self._outcome(rank))
        if outcome is None:
            return False, float("inf")
        return outcome.summary == PEER_ENDED, self._outcome(rank).stat().st_mtime

    def _send(self, number: int) -> None:
        for child in self.children:
            child.send_signal(number)  # does nothing if it has ended

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        launcher = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": self.size,
            "LOCAL_WORLD_SIZE": self.size,
            "MASTER_ADDR": HOST,
            "MASTER_PORT": port,
            "TORCHELASTIC_USE_AGENT_STORE": True,  # this process has the store
            OUTCOME_FILE: self._outcome(rank),
            PARENT: os.getpid(),
        }
        loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
        return {**loopback, **os.environ, **{name: str(value) for name, value in launcher.items()}}

    def _errors(self, rank: int) -> Path:
        return self.folder / f"{rank}.txt"

    def _outcome(self, rank: int) -> Path:
        return self.folder / f"{rank}.json"
