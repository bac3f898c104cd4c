"""Process that runs the trials of a search one after another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.config_types import shown
from epigram.core.files import write_json
from epigram.process.startup import limit_library_threads
from epigram.runner import child_process
from epigram.runner.dvc.process import stage_path
from epigram.training.trials.spec import TrialRequest

MODULE = "epigram.training.trials"
INTERVAL = 0.02  # seconds between two looks for a result


class TrialProcess:
    """A child process, which imports its libraries when it starts, so that no trial waits for that."""

    def __init__(self, workspace: Path) -> None:
        self._folder, self._asked = TemporaryDirectory(prefix="epigram-"), 0
        self._printed = Path(self._folder.name, "printed")
        command = [sys.executable, "-m", MODULE, self._folder.name]
        environment = {**os.environ, "PYTHONPATH": stage_path(workspace)}
        limit_library_threads(environment)
        with self._printed.open("w", encoding="utf-8") as output:
            self.child: subprocess.Popen[str] = child_process.start(
                command, cwd=workspace, env=environment, stdout=output, stderr=output
            )

    def run(self, request: TrialRequest, seconds: float) -> None:
        """Request a trial, and wait for its result, for the end of the process, or until the `seconds` are over."""
        end = time.monotonic() + seconds
        write_json(Path(self._folder.name, f"{self._asked}.json"), request.content)
        self._asked += 1
        while not request.out.is_file() and self.child.poll() is None and time.monotonic() < end:
            time.sleep(INTERVAL)

    @property
    def error(self) -> str:
        """The last error that the process has printed, in one line, or its exit code and its last line."""
        text = self._printed.read_text(encoding="utf-8", errors="replace")
        _, *errors = re.split(r"^error: ", text, flags=re.MULTILINE)
        if errors:
            return " ".join(map(shown, errors[-1].split()))
        last = f", last line: {shown(text.splitlines()[-1])}" if text else ""
        return f"exit code {self.child.returncode}{last}"

    def end(self) -> None:
        """Terminate the process, and wait until it has ended."""
        child_process.terminate(self.child)
        self.child.wait()
        self._folder.cleanup()
