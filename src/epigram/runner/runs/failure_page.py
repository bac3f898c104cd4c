"""The page of a failed run: which stage failed, why, its last lines, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from epigram.process.display import escape_markdown, one_line, printable
from epigram.process.outcome import Outcome

SIGNALS = 128  # an exit code above it is a signal
LAST_LINES = 15
MEANINGS = {  # exit code: what it means, and what to do
    64: ("a setting is not valid", "Change the setting that the message names."),
    65: ("the data break a rule, or a file is damaged", "Correct the rows or the file that the message names."),
    66: ("an input is missing", "Restore or add the input that the message names."),
    69: ("a source does not respond", "Wait until it responds. Data that were downloaded are kept."),
    70: ("an internal error", "Set `EPIGRAM_DEBUG=1` for a traceback."),
    74: ("the disk is full, read-only or damaged", "Free disk space, or make the folder writable."),
    75: (
        "interrupted, or something else is in use",
        "Do what the message says. A training resumes from its checkpoint.",
    ),
    130: ("stopped with Ctrl-C", "A training resumes from its checkpoint."),
    137: ("killed, most often because memory ran out", "Free memory, or lower `train.batch_size`."),
}
OTHER = ("the command failed", "Correct the cause that the last lines show.")
SIGNAL = ("the process crashed", "Correct the cause that the last lines show.")


def failure(name: str, failed: Outcome, states: Mapping[str, str], log: str, folder: Path) -> str:
    """Return the page of the run `name` in which the stage of `failed` failed first.

    `states` has the state of every stage, `log` is the address of the stage's log, and `folder` has the run's files.
    Everything that comes from the data or from a program is escaped, or in a block of code.
    """
    meaning, remedy = MEANINGS.get(failed.code, SIGNAL if failed.code > SIGNALS else OTHER)
    stage = escape_markdown(failed.stage)
    parts = [
        f"# {escape_markdown(name)}: {stage} failed",
        f"**{escape_markdown(failed.summary)}**",
        _code(failed.details),
        f"Exit code {failed.code}: {meaning}.",
        f"## What to do\n\n{remedy} Then run it again: stages that have succeeded are not repeated.",
        _others(failed.stage, states),
        f"## Log\n\n[Log of the stage]({log})" if log else "",
        _code(failed.output[-LAST_LINES:]),
        "Files of the run:",
        _code([str(folder)]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _others(failed: str, states: Mapping[str, str]) -> str:
    """Return which other stages failed, and which did not run for a failure, as a list."""
    kinds = {"Failed": "Other stages that failed", "NotReady": "Stages that did not run, because an earlier one failed"}
    named = {kind: [name for name, state in states.items() if state == kind and name != failed] for kind in kinds}
    return "\n".join(f"* {kinds[kind]}: {escape_markdown(', '.join(names))}" for kind, names in named.items() if names)


def _code(lines: Sequence[str]) -> str:
    """Return `lines` as a block of code, in which nothing is formatted."""
    return "\n".join(f"    {one_line(printable(line))}" for line in lines)
