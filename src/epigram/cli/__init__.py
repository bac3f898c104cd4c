"""The `epigram` command."""

from __future__ import annotations

from epigram.process.signals import end_on_signals


def program() -> None:
    """Run the command line and end the process; entry point of the installed command."""
    with end_on_signals():
        from epigram.cli.app import start
    start()
