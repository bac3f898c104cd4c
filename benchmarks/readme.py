"""Write the README's table of benchmarks from a results file: python -m benchmarks.readme [FILE], after make bench.

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

README = ROOT / "README.md"
BLOCK = re.compile(r"<!-- benchmarks(?:: (\S+))? -->\n(.*?)<!-- /benchmarks -->\n", re.DOTALL)
NONE = "No results yet: `make bench` measures them.\n"
TIMES = {"texts/s", "titles/s", "ms", "s"}  # units of the rows that are shown
HEAD = f"| work | epigram | best peer | ratio | accuracy: ours, less the peers' [95%] | target |\n|{' --- |' * 6}"


def rendered(facts: Mapping[str, Any] | None) -> str:
    """Return a Markdown table that compares every rate and time with the best peer."""
    if facts is None:
        return NONE
    rows = [row for row in judged(facts["rows"], facts["accuracy"]) if row["unit"] in TIMES]
    about = f"{facts['machine']}, commit {str(facts['commit'])[:10]}, {facts['date']}:"
    return "\n".join([about, "", HEAD, *map(_line, rows), ""])


def _line(row: Mapping[str, Any]) -> str:
    peer = row["peers"][0] if row["peers"] else None
    cells = [
        row["work"],
        f"{row['ours']:,g} {row['unit']}",
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
    if row["reached"] is None:
        return ""
    return f"{row['reach']}: {'reached' if row['reached'] else 'not reached'}"


def written(text: str, name: str, facts: Mapping[str, Any] | None) -> str:
    """Return the README's `text` with the table of the results file `name`."""
    return BLOCK.sub(lambda _: f"<!-- benchmarks: {name} -->\n{rendered(facts)}<!-- /benchmarks -->\n", text)


def main() -> None:
    """Rewrite the README's block of benchmarks."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else results.file_of(results.machine())
    facts = results.load(path)
    if facts is None:
        sys.exit(f"{path}: no such results: run make bench")
    README.write_text(written(README.read_text(encoding="utf-8"), path.name, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
