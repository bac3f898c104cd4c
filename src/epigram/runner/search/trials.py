"""Trials of a search: their results are kept by their content."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.core.files import sha256
from epigram.core.machine import count_processors
from epigram.models.manifest import code_hash
from epigram.runner.scheduling.gpus import visible_gpus
from epigram.runner.search.trial_process import TrialProcess
from epigram.text.dataset.encoded_dataset import View
from epigram.training.trials.spec import TrialRequest, TrialResult, TrialSpec


class Trials:
    """Trials on the encoded views of a workspace; results are kept in `kept`, so that a killed search resumes.

    A result is found again for the same trial, data and code on a machine with as many cores and GPUs. `close` ends the
    process that runs them.
    """

    def __init__(self, workspace: Path, kept: Path) -> None:
        self.workspace, self.kept = workspace, kept
        self.origin = f"{code_hash()} {platform.machine()} {count_processors()} {len(visible_gpus())}"
        self._process: TrialProcess | None = TrialProcess(workspace)
        self._fingerprints: dict[str, str] = {}

    def run(self, spec: TrialSpec, seconds: float) -> TrialResult | None:
        """Return the kept result of a trial, or run it; after `seconds`, it is ended and the result is None.

        A damaged result is removed, and its trial is run again. Raises EpigramError, with the last line of its output,
        if the trial fails.
        """
        file = self.kept / f"{self._key(spec)}.json"
        if (found := _read(file)) is not None:
            return found
        self._run(spec, file, seconds)
        return TrialResult.read(file) if file.is_file() else None

    def close(self) -> None:
        """End the process, and the trial that it runs."""
        if self._process:
            self._process.end()
            self._process = None

    def _key(self, spec: TrialSpec) -> str:
        if spec.view not in self._fingerprints:
            encoded, pretrained = self._folders(spec)
            digest = sha256(pretrained / "about.json")  # it has the checksums of the encoder
            self._fingerprints[spec.view] = f"{View.load(encoded).fingerprint} {digest}"
        content = json.dumps([spec.content, self._fingerprints[spec.view], self.origin], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    def _run(self, spec: TrialSpec, out: Path, seconds: float) -> None:
        """Run a trial, which writes `out`; a process that has failed or takes too long is not used again."""
        process = self._process = self._process or TrialProcess(self.workspace)
        encoded, pretrained = self._folders(spec)
        process.run(TrialRequest(spec=spec, encoded=encoded, pretrained=pretrained, out=out), seconds)
        if out.is_file():
            return
        failed = process.child.poll() is not None
        error = process.error if failed else ""
        self.close()
        if failed:
            raise EpigramError(f"trial of {spec.name} on {spec.rows:,} rows failed: {error}")

    def _folders(self, spec: TrialSpec) -> tuple[Path, Path]:
        data = self.workspace / "data"
        return data / "encoded" / spec.view, data / "pretrained" / spec.view


def _read(file: Path) -> TrialResult | None:
    """Return a kept result, None if there is none; remove a damaged file."""
    try:
        return TrialResult.read(file)
    except EpigramError:
        file.unlink(missing_ok=True)
        return None
