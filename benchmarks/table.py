"""Table of the benchmark results: our value and the best peer's in one row, then one row for each peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = ("work", "unit", "ours", "best peer", "ratio", "limit", "target", "verdict", "accuracy: ours, less peer's [95%]")
Record = Mapping[str, Any]


def judged(records: Sequence[Record], accuracy: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the rows with their accuracy comparisons and the verdict on their targets."""
    by_name = {entry["name"]: entry for entry in accuracy}
    found = []
    for record in records:
        compared = by_name.get(record["accuracy"])
        found.append({**record, "compared": compared, "verdict": verdict(record, compared)})
    return found


def verdict(record: Record, compared: Record | None) -> str | None:
    """Return whether a row's target is reached; None without one.

    A target with worse accuracy is not reached, and with an accuracy that is not measured it is not known to be.
    """
    if not record["reached"]:
        return None if record["reached"] is None else "not reached"
    if record["accuracy"] is not None and compared is None:
        return "accuracy not measured"
    worse = compared is not None and any(peer["worse"] for peer in compared["peers"])
    return "not reached" if worse else "reached"


def table(records: Sequence[Record], accuracy: Sequence[Record] = ()) -> str:
    """Return a table of medians with their ranges in brackets; `limit` is our share of what the machine can do."""
    lines: list[tuple[str, ...]] = [HEAD]
    for record in judged(records, accuracy):
        lines.append(_cells(record))
        lines += [_peer_cells(record, peer) for peer in record["peers"]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _cells(record: Record) -> tuple[str, ...]:
    peers = record["peers"]
    return (
        record["work"],
        record["unit"],
        _spread(record["ours"], record["ours_range"]),
        f"{peers[0]['value']:,g}" if peers else "–",
        f"{record['ratio']:.2f}" if record["ratio"] is not None else "–",
        f"{record['limit']:.0%}" if record["limit"] is not None else "–",
        record["reach"] or "–",
        record["verdict"] or "–",
        _accuracy(record),
    )


def _peer_cells(record: Record, peer: Record) -> tuple[str, ...]:
    best = " (best)" if peer is record["peers"][0] and len(record["peers"]) > 1 else ""
    ratio = f"{peer['ratio']:.2f}" if peer["ratio"] is not None else "–"
    value = _spread(peer["value"], peer["range"])
    return (f"    against {peer['name']}{best}", "", "", value, ratio, *[""] * 4)


def _spread(value: float, spread: Sequence[float]) -> str:
    return f"{value:,g} [{spread[0]:,g}, {spread[1]:,g}]"


def _accuracy(record: Record) -> str:
    if record["accuracy"] is None:
        return "–"
    if record["compared"] is None:
        return "not measured: make bench-accuracy"
    said = [f"{p['difference']:+.1f} [{p['low']:.1f}, {p['high']:.1f}]" for p in record["compared"]["peers"]]
    return f"{record['compared']['ours']:.1f}, {', '.join(said)}"


def accuracy_table(accuracy: Sequence[Record]) -> str:
    """Return the accuracy comparisons as text."""
    lines = []
    for entry in accuracy:
        lines.append(f"{entry['name']}: {entry['about']}")
        lines.append(f"    ours {entry['ours']:.2f}")
        for peer in entry["peers"]:
            verdict = "WORSE" if peer["worse"] else "not worse"
            gap = f"{peer['difference']:+.2f} [{peer['low']:.2f}, {peer['high']:.2f}]"
            lines.append(f"    {peer['name']} {peer['value']:.2f}: ours {gap} points, {verdict}")
    return "\n".join(lines)
