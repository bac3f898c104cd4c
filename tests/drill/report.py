"""The drill's table, and its place in docs/reliability.md."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.drill.trial import Trial

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/reliability.md"
BEGIN, END = "<!-- drill -->", "<!-- /drill -->"


def table(trials: list[Trial], seconds: float, seed: int) -> str:
    """Markdown: what struck how often, and what was lost."""
    rows: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        rows[trial.fault].append(trial)
    struck, lost = sum(trial.struck for trial in trials), sum(bool(trial.losses) for trial in trials)
    lines = [
        f"{len(trials)} faults (seed {seed}) in {seconds / 60:.0f} minutes, {struck} of them before the command that "
        f"they were meant for had ended: **{lost} losses**.",
        "",
        "| fault | trials | in time | mended | losses |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for fault, found in sorted(rows.items()):
        counts = [sum(map(bool, each)) for each in zip(*((t.struck, t.mended, t.losses) for t in found), strict=True)]
        lines.append(f"| {fault} | {len(found)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    """Put the table between the two marks of the document."""
    document = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
