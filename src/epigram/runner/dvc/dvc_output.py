"""Output of a stage, separated from DVC's output around it."""

from __future__ import annotations

import re
from collections import deque

from epigram.core.display import printable
from epigram.core.errors import DiskError, EpigramError, InputMissingError, TryAgainError

PROGRESS = "\x1e"  # prefix of a progress line, which replaces the previous line
ERROR = "error: "  # prefix of a stage's own error
KILLED = 137  # 128 + SIGKILL: in most cases, the kernel killed it when out of memory
MAX_LINES = 30

# Messages of DVC that would push out a stage's own last lines.
DVC_MESSAGES = re.compile(
    r"Running stage '|> |Generating lock file|Updating lock file|To track the changes with git|\tgit add"
    r"|To enable auto staging|\tdvc config core\.autostage|Use `dvc push`|Data and pipelines are up to date"
    r"|Stage '.*' didn't change, skipping|Stage '.*' is cached - skipping run|Waiting to acquire lock|If DVC froze"
)
STAGE_EXIT = re.compile(r"ERROR: failed to reproduce .*, exited with (-?\d+)$")
LOCK_BUSY = re.compile(r"is busy, it is being blocked by|Unable to acquire lock")
DVC_ERROR_CODES: list[tuple[re.Pattern[str], int]] = [
    (LOCK_BUSY, TryAgainError.code),
    (re.compile(r"\[Errno 2\]|missing data '"), InputMissingError.code),
    (re.compile(r"\[Errno (5|28|30)\]|disk is full|disk I/O error"), DiskError.code),  # the last is SQLite's message
]


def split_error(output: str) -> tuple[str, list[str]]:
    """Split a failed stage's `last_lines` into the line that says what is wrong, and its details.

    The line is the stage's first error, or the last line if there is none. The details are the lines after it, or the
    lines before it if none follow.
    """
    lines = output.splitlines()
    index = next((index for index, line in enumerate(lines) if line.startswith(ERROR)), len(lines) - 1)
    return lines[index].removeprefix(ERROR), lines[index + 1 :] or lines[:index]


class ReproOutputParser:
    """Parser of the output of `dvc repro --single-item`, line by line."""

    def __init__(self, stage: str) -> None:
        self._start_line = f"Running stage '{stage}':"
        self._restore_line = f"Stage '{stage}' is cached - skipping run"
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._errors: deque[str] = deque(maxlen=MAX_LINES)
        self._first_error = ""
        self.state = "Cached"

    def read(self, line: str) -> str:
        """Process one line; return the text to show, or an empty string."""
        mark = PROGRESS if line.startswith(PROGRESS) else ""
        line = f"{mark}{printable(line.removeprefix(PROGRESS))}".rstrip()
        if self.state == "Cached":
            if line == self._start_line:
                self.state = "Completed"
            elif line.startswith(self._restore_line):
                self.state = "Restored"
        if line.startswith("ERROR:"):
            self._errors.append(line)
        if not line or DVC_MESSAGES.match(line) or STAGE_EXIT.match(line):
            return ""
        if not line.startswith((PROGRESS, "ERROR: failed to reproduce")):
            self._lines.append(line)
            self._first_error = self._first_error or (line if line.startswith(ERROR) else "")
        return line

    def exit_code(self, dvc_code: int) -> int:
        """Return the stage's own exit code, because DVC's is 255 for every failure; 70 if DVC itself failed.

        For some errors of DVC, such as a full disk or a busy lock, the code is that of the error.
        """
        if dvc_code in {0, KILLED}:
            return dvc_code
        text = "\n".join(self._errors)
        for line in reversed(self._errors):
            if found := STAGE_EXIT.match(line):
                code = int(found[1])
                return code if code >= 0 else 128 - code  # the shell's exit code for a signal
        return next((code for pattern, code in DVC_ERROR_CODES if pattern.search(text)), EpigramError.code)

    def last_lines(self) -> str:
        """Return the last lines of the stage, always including its first error; DVC's errors if it printed nothing."""
        omitted = [self._first_error, "…"] if self._first_error and self._first_error not in self._lines else []
        return "\n".join([*omitted, *self._lines] or self._errors)
