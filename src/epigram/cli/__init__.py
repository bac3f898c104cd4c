"""The `epigram` command."""

from __future__ import annotations

from epigram.process.signals import end_on_signals


def program(*command: str) -> None:
    """Run the command line and end the process; entry point of the installed command.

    `command` is inserted before the arguments of the command line; `python -m flows.pipeline` passes `run`.
    """
    with end_on_signals():
        from epigram.cli.app import start
    start(*command)
