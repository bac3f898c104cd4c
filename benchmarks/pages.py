"""Write the tables of benchmarks from a results file: python -m benchmarks.pages [FILE], after make bench.

docs/benchmarks.md has every rate, every time and every target, the README one row for each kind of work.

Without FILE it uses the results file of this machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.table import judged
from benchmarks.timing import ROOT

README, PAGE = ROOT / "README.md", ROOT / "docs/benchmarks.md"
BLOCK = re.compile(r"<!-- benchmarks(?:: (\S+))? -->\n(.*?)<!-- /benchmarks -->\n", re.DOTALL)
NONE = "No results yet: `make bench` measures them.\n"
README_ROWS = (  # starts of rows; for each kind of work the one that most users wait for, reached or not
    "validate + encode, 1,000,000",
    "textcnn, training",
    "MiniLM, mr, fine-tuning",
    "fast_text",
    "MiniLM, predictions of 1,000",
    "MiniLM, prediction of one",
    "epigram predict, MiniLM, cold",
    "the flow with nothing to do, with no server",
)
TIMES = {"texts/s", "titles/s", "ms", "s"}  # units of the rows that are shown without a target
HEAD = f"| work | epigram | best peer | ratio | accuracy: epigram's, less the peers' [95%] | target |\n|{' --- |' * 6}"


def rendered(facts: Mapping[str, Any] | None, starts: tuple[str, ...] = ("",)) -> str:
    """Return a Markdown table of rates, times and targets with the best peer, of rows with one of these `starts`."""
    if facts is None:
        return NONE
    rows = [
        row
        for row in judged(facts["rows"], facts["accuracy"])
        if (row["unit"] in TIMES or row["reach"]) and row["work"].startswith(starts)
    ]
    about = f"{facts['machine']}, commit {str(facts['commit'])[:10]}, {facts['date']}:"
    return "\n".join([about, "", HEAD, *map(_line, rows), ""])


def _line(row: Mapping[str, Any]) -> str:
    peer = row["peers"][0] if row["peers"] else None
    cells = [
        row["work"],
        f"{row['ours']:,g} {row['unit']}".strip(),
        f"{peer['name']}: {peer['value']:,g}" if peer else "",
        f"{peer['ratio']:.2f} ×" if peer and peer["ratio"] is not None else "",
        _accuracy(row),
        _target(row),
    ]
    return f"| {' | '.join(cells)} |"


def _accuracy(row: Mapping[str, Any]) -> str:
    if row["compared"] is None:
        return "not measured" if row["accuracy"] else ""
    gaps = [f"{peer['difference']:+.1f} [{peer['low']:.1f}, {peer['high']:.1f}]" for peer in row["compared"]["peers"]]
    return f"{row['compared']['ours']:.1f} %, {', '.join(gaps)}"


def _target(row: Mapping[str, Any]) -> str:
    return f"{row['reach']}: {row['verdict']}" if row["verdict"] else ""


def starts_on(page: Path) -> tuple[str, ...]:
    """Return how the rows start that a page shows."""
    return README_ROWS if page == README else ("",)


def written(text: str, name: str, facts: Mapping[str, Any] | None, starts: tuple[str, ...] = ("",)) -> str:
    """Return a page's `text` with the table of the results file `name`."""
    return BLOCK.sub(lambda _: f"<!-- benchmarks: {name} -->\n{rendered(facts, starts)}<!-- /benchmarks -->\n", text)


def main() -> None:
    """Rewrite the tables of both pages."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else results.file_of(results.machine())
    facts = results.load(path)
    if facts is None:
        sys.exit(f"{path}: no such results: run make bench")
    for page in (README, PAGE):
        text = written(page.read_text(encoding="utf-8"), path.name, facts, starts_on(page))
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
