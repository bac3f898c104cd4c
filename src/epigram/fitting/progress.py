"""Live line of a search: what is trained, the best system so far, and the time that is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from epigram.evaluation.comparison.formats import score_text
from epigram.fitting.search import Search


class LiveLine:
    """The line, which is made anew whenever it is drawn."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def __rich__(self) -> Text:
        """Return the line of this moment."""
        search = self.search
        end = "comparing the systems and writing the report" if search.systems else "checking the texts"
        parts = [f"training {search.trying}" if search.trying else end]
        if best := search.best:
            found = search.metrics[best]
            parts.append(f"best so far: {best} {score_text(found.score, found.dev_score.value)}")
        return Text("; ".join([*parts, f"{max(0.0, search.watch.left):.0f} s left"]), style="dim")


@contextmanager
def live(search: Search, *, shown: bool) -> Iterator[None]:
    """Draw the line below the output while the context is open, if stderr is a terminal."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield
        return
    with Live(LiveLine(search), console=console, transient=True, redirect_stdout=False, refresh_per_second=2):
        yield
