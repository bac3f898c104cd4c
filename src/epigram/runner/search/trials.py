"""Trials of a search: each one runs in a child process, and its result is kept by its content."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from epigram.core.config_types import shown
from epigram.core.errors import EpigramError, TryAgainError
from epigram.core.files import sha256, write_json
from epigram.core.spinning import limit_spinning
from epigram.models.provenance import code_hash
from epigram.runner import child_process
from epigram.runner.dvc.process import stage_path
from epigram.text.encoded_dataset import View
from epigram.training.trials.spec import TrialResult, TrialSpec

MODULE = "epigram.training.trials"


class Trials:
    """Trials on the encoded views of a workspace; results are kept in `kept`, so that a killed search resumes.

    A result is found again for the same trial, data and code. After `stop`, no trial starts.
    """

    def __init__(self, workspace: Path, kept: Path) -> None:
        self.workspace, self.kept, self.code = workspace, kept, code_hash()
        self.processes = child_process.ProcessPool()
        self._fingerprints: dict[str, str] = {}

    def run(self, spec: TrialSpec, seconds: float) -> TrialResult | None:
        """Return the result of a trial: the kept one, or that of a new process, which is ended after `seconds`: None.

        Raises TryAgainError if the search was stopped, and EpigramError, with the last line of its output, if the trial
        failed.
        """
        file = self.kept / f"{self._key(spec)}.json"
        if not file.is_file():
            self._run_process(spec, file, seconds)
        return TrialResult.read(file) if file.is_file() else None

    def stop(self) -> None:
        """End the running trial, and start no new one."""
        self.processes.stop()

    def _key(self, spec: TrialSpec) -> str:
        if spec.view not in self._fingerprints:
            encoded, pretrained = self._folders(spec)
            digest = sha256(pretrained / "about.json")  # it has the checksums of the encoder
            self._fingerprints[spec.view] = f"{View.load(encoded).fingerprint} {digest}"
        content = json.dumps([spec.content, self._fingerprints[spec.view], self.code], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    def _run_process(self, spec: TrialSpec, out: Path, seconds: float) -> None:
        """Run a trial; it writes `out`, unless it is ended after `seconds`."""
        with TemporaryDirectory(prefix="epigram-") as folder:
            asked, printed = Path(folder, "spec.json"), Path(folder, "printed")
            write_json(asked, spec.content)
            with printed.open("w", encoding="utf-8") as output:
                child = self.processes.start(lambda: self._start(asked, spec, out, output))
                if child is None:
                    raise TryAgainError("the search was stopped")
                with child:
                    code = _wait(child, seconds)
            self.processes.discard(child)
            if self.processes.stopped:
                raise TryAgainError("the search was stopped")
            if code:
                lines = printed.read_text(encoding="utf-8", errors="replace").splitlines()
                last = shown(lines[-1].removeprefix("error: ")) if lines else f"exit code {code}"
                raise EpigramError(f"trial of {spec.name} on {spec.rows:,} rows failed: {last}")

    def _start(self, asked: Path, spec: TrialSpec, out: Path, output: IO[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", MODULE, str(asked), *map(str, self._folders(spec)), str(out)]
        environment = {**os.environ, "PYTHONPATH": stage_path(self.workspace)}
        limit_spinning(environment)
        return child_process.start(command, cwd=self.workspace, env=environment, stdout=output, stderr=output)

    def _folders(self, spec: TrialSpec) -> tuple[Path, Path]:
        data = self.workspace / "data"
        return data / "encoded" / spec.view, data / "pretrained" / spec.view


def _wait(child: subprocess.Popen[str], seconds: float) -> int:
    """Return the exit code of the child, or 0 if it had to be ended after `seconds`."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child_process.terminate(child)
        child.wait()
        return 0
