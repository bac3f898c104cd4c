"""Write the table of docs/benchmarks.md from a results file: python -m benchmarks.pages [FILE], after make bench.

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

PAGE = ROOT / "docs/benchmarks.md"
BLOCK = re.compile(r"<!-- benchmarks(?:: (\S+))? -->\n(.*?)<!-- /benchmarks -->\n", re.DOTALL)
NONE = "No results yet: `make bench` measures them.\n"
TIMES = {"texts/s", "titles/s", "ms", "s"}  # units of the rows that are shown without a target
HEAD = f"| work | epigram | best peer | ratio | accuracy: epigram's, less the peers' [95%] | target |\n|{' --- |' * 6}"


def rendered(facts: Mapping[str, Any] | None) -> str:
    """Return a Markdown table of rates, times and targets with the best peer."""
    if facts is None:
        return NONE
    rows = [row for row in judged(facts["rows"], facts["accuracy"]) if row["unit"] in TIMES or row["reach"]]
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


def written(text: str, name: str, facts: Mapping[str, Any] | None) -> str:
    """Return a page's `text` with the table of the results file `name`."""
    return BLOCK.sub(lambda _: f"<!-- benchmarks: {name} -->\n{rendered(facts)}<!-- /benchmarks -->\n", text)


def main() -> None:
    """Rewrite the table of the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else results.file_of(results.machine())
    facts = results.load(path)
    if facts is None:
        sys.exit(f"{path}: no such results: run make bench")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), path.name, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
