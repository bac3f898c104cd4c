"""Outcome of a stage process, in a file that the runner reads instead of the printed text."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from epigram.process.display import printable

OUTCOME_FILE = "EPIGRAM_OUTCOME"  # environment variable with the path of the file; without it, nothing is written
MAX_DETAILS = 30  # lines; the log contains all of them


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a stage ended: its exit code, one line that says what is wrong, and further lines.

    `state` is Completed, Cached (nothing changed), Restored (from DVC's run cache), Failed or Cancelled. `output` are
    the last lines that a failed stage printed, if `details` are not these lines.
    """

    stage: str
    code: int = 0
    summary: str = ""
    details: tuple[str, ...] = ()
    state: str = "Completed"
    output: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def failed(cls, stage: str, code: int, message: str) -> Outcome:
        """Return the outcome of a failed stage: the first line of `message` is the summary."""
        summary, *details = message.splitlines() or [""]
        shown = details[:MAX_DETAILS]
        if len(details) > MAX_DETAILS:
            shown.append(f"… and {len(details) - MAX_DETAILS} more lines")
        return cls(stage=stage, code=code, summary=summary, details=tuple(shown), state="Failed")

    @property
    def message(self) -> str:
        """The summary and the details, one line each."""
        return "\n".join([self.summary, *self.details])

    def write(self) -> None:
        """Write the outcome to the file that OUTCOME_FILE names, atomically; do nothing if it is not set.

        On a full disk, or without memory, nothing is written: the runner then uses the exit code.
        """
        if not (name := os.environ.get(OUTCOME_FILE)):
            return
        temporary = Path(f"{name}.{os.getpid()}")
        with suppress(OSError, MemoryError):
            temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")
            temporary.replace(name)


def read_outcome(path: Path) -> Outcome | None:
    """Return the outcome in a file, without unprintable characters; None if the file is missing or damaged."""
    try:
        record = json.loads(path.read_bytes())
        return Outcome(
            stage=str(record["stage"]),
            code=int(record["code"]),
            summary=printable(str(record["summary"])),
            details=tuple(printable(str(line)) for line in record["details"]),
            state=str(record["state"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def current_stage() -> str:
    """Return the name of the stage that DVC runs in this process, for example train@mlp; empty without DVC."""
    return os.environ.get("DVC_STAGE", "")
