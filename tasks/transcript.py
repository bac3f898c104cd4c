"""What a stage printed, told apart from what DVC printed around it."""

from __future__ import annotations

import re
from collections import deque

from pithy.display import printable
from pithy.errors import DiskError, InputMissingError, PithyError, TryAgainError

PROGRESS = "\x1e"  # a line that starts with it replaces the one before
ERROR = "error: "  # how a stage's own error begins
KILLED = 137  # 128 + SIGKILL: most often the kernel, out of memory
LAST_LINES = 30

# Advice of DVC's that would hide a stage's own last lines.
CHATTER = re.compile(
    r"Running stage '|> |Generating lock file|Updating lock file|To track the changes with git|\tgit add"
    r"|To enable auto staging|\tdvc config core\.autostage|Use `dvc push`|Data and pipelines are up to date"
    r"|Stage '.*' didn't change, skipping|Stage '.*' is cached - skipping run|Waiting to acquire lock|If DVC froze"
)
STAGE_EXIT = re.compile(r"ERROR: failed to reproduce .*, exited with (-?\d+)$")
LOCK_BUSY = re.compile(r"is busy, it is being blocked by|Unable to acquire lock")
FAULTS: list[tuple[re.Pattern[str], int]] = [
    (LOCK_BUSY, TryAgainError.code),
    (re.compile(r"\[Errno 2\]|missing data '"), InputMissingError.code),
    (re.compile(r"\[Errno (5|28|30)\]|disk is full|disk I/O error"), DiskError.code),  # the latter in SQLite's words
]


def told(said: str) -> tuple[str, list[str]]:
    """The one line of a failed stage's `last_lines` that says what is wrong, and the details of it.

    These are what follows a stage's own error; what came before where nothing follows, or where there is no such error.
    """
    lines = said.splitlines()
    place = next((place for place, line in enumerate(lines) if line.startswith(ERROR)), len(lines) - 1)
    return lines[place].removeprefix(ERROR), lines[place + 1 :] or lines[:place]


class Transcript:
    """Reads the output of `dvc repro --single-item` line by line."""

    def __init__(self, stage: str) -> None:
        self._began = f"Running stage '{stage}':"
        self._restored = f"Stage '{stage}' is cached - skipping run"
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._faults: deque[str] = deque(maxlen=LAST_LINES)
        self._error = ""
        self.state = "Cached"

    def read(self, line: str) -> str:
        """Take in one line; what of it is worth showing, or the empty string."""
        mark = PROGRESS if line.startswith(PROGRESS) else ""
        line = f"{mark}{printable(line.removeprefix(PROGRESS))}".rstrip()
        if self.state == "Cached":
            if line == self._began:
                self.state = "Completed"
            elif line.startswith(self._restored):
                self.state = "Restored"
        if line.startswith("ERROR:"):
            self._faults.append(line)
        if not line or CHATTER.match(line) or STAGE_EXIT.match(line):
            return ""
        if not line.startswith((PROGRESS, "ERROR: failed to reproduce")):
            self._lines.append(line)
            self._error = self._error or (line if line.startswith(ERROR) else "")
        return line

    def exit_code(self, dvc_code: int) -> int:
        """The stage's own exit code; DVC's is 255 whatever the stage returned. 70 where DVC itself failed."""
        if dvc_code in {0, KILLED}:
            return dvc_code
        text = "\n".join(self._faults)
        for line in reversed(self._faults):
            if found := STAGE_EXIT.match(line):
                code = int(found[1])
                return code if code >= 0 else 128 - code  # the shell's number for a signal
        return next((code for pattern, code in FAULTS if pattern.search(text)), PithyError.code)

    def last_lines(self) -> str:
        """The end of what the stage said, never without its first error; DVC's own errors where it said nothing."""
        lost = [self._error, "…"] if self._error and self._error not in self._lines else []
        return "\n".join([*lost, *self._lines] or self._faults)
