"""Data page of the report: an HTML fragment without scripts and external resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Report = Mapping[str, Any]
Cell = str | int | float | None

HEIGHT, STEP, GAP = 120, 26, 2  # of the bars of a histogram, in SVG units
FILL = "var(--accent, #4a7fb5)"


def page(report: Report) -> str:
    """Return the HTML fragment for one validated corpus; `report` is the content of report.json."""
    sections = [
        f"<h2>Data: {escape(report['name'])}</h2>",
        _summary(report),
        "".join(f'<p class="note">{escape(note)}</p>' for note in report["notes"]),
        "<h3>Classes</h3>" + _classes(report["classes"], report["rows"]),
        _token_classes(report["token_classes"]),
        "<h3>Length</h3>" + _lengths(report),
        "<h3>Vocabulary</h3>" + _vocabulary(report["vocabulary"]),
        "<h3>The same text in two splits</h3>" + _leaks(report["leaks"]),
        "<h3>Rules</h3>" + _rules(report["rules"]),
        _conflicts(report["conflicts"]),
    ]
    return '<section class="data">\n' + "\n".join(section for section in sections if section) + "\n</section>\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = ' class="num"') -> str:
    """Return an HTML table; cells must already be escaped, and the first column is the row header."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Cell) -> str:
    if value is None:
        return "–"
    return escape(value if isinstance(value, str) else f"{value:,}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _bar(share: float) -> str:
    return f'<span class="bar" style="display:block;min-height:.7em;width:{8 * share:.2f}em"></span>'


def _summary(report: Report) -> str:
    lead = (
        f"{'Chinese' if report['language'] == 'zh' else 'English'}, {len(report['labels'])} labels, "
        f"{'one or more' if report['task'] == 'multi' else 'one'} for each text"
        f"{_of_tokens(report['token_labels'])}."
    )
    held_out = {"train": None, "dev": report["dev_in_train"], "test": report["test_in_train"]}
    rows = [
        [name, _text(number), _text(report["repeats"][name]), _text(held_out[name]), _text(report["emoji_only"][name])]
        for name, number in report["rows"].items()
    ]
    return f"<p>{lead}</p>" + table(["split", "rows", "repeated texts", "also in train", "only emoji"], rows)


def _of_tokens(token_labels: Sequence[str]) -> str:
    return f", and {len(token_labels)} for tokens, {escape(token_labels[0])} by default" if token_labels else ""


def _classes(classes: Mapping[str, Mapping[str, int]], rows: Mapping[str, int]) -> str:
    largest = max(classes["train"].values(), default=0) or 1
    lines = [
        [
            escape(label),
            *(f"{counts[label]:,} ({_percent(counts[label] / (rows[name] or 1))})" for name, counts in classes.items()),
            _bar(number / largest),
        ]
        for label, number in classes["train"].items()
    ]
    return table(["label", *classes, "in train"], lines)


def _token_classes(classes: Mapping[str, Mapping[str, int]]) -> str:
    if not classes:
        return ""
    tokens = {split: sum(counts.values()) for split, counts in classes.items()}
    return "<h3>Labels of tokens</h3>" + _classes(classes, tokens)


def _lengths(report: Report) -> str:
    longest, unit = report["longest"], report["vocabulary"]["unit"]
    drawn = ["characters"] if unit == "character" else list(report["length"])
    rows = [
        [name, *(_text(counts[key]) for key in ("mean", "p5", "p50", "p95", "p99", "max"))]
        for name, counts in report["length"].items()
    ]
    return (
        table(["in", "mean", "5%", "median", "95%", "99%", "longest"], rows)
        + "".join(_histogram(name, report["length"][name]) for name in drawn)
        + f'<p class="note">A token is a {escape(unit)} here. The longest text ({longest["characters"]:,} characters) '
        f"is row {longest['row']:,}, in {longest['split']}: “{escape(longest['text'])}…”</p>"
    )


def _histogram(unit: str, counts: Report) -> str:
    """Return an SVG bar chart of the number of texts in each length bin, all splits together."""
    sums = [sum(column) for column in zip(*counts["counts"].values(), strict=True)]
    edges, top = counts["edges"], max(sums) or 1
    bars = []
    for place, (edge, number) in enumerate(zip(edges, sums, strict=True)):
        last = place == len(edges) - 1
        span = f"{edge:,} or more" if last else f"{edge:,} to {edges[place + 1] - 1:,}"
        tall = HEIGHT * number / top
        bars.append(
            f'<rect x="{place * STEP}" y="{HEIGHT - tall:.1f}" width="{STEP - GAP}" height="{tall:.1f}" fill="{FILL}">'
            f"<title>{span} {unit}: {number:,} texts</title></rect>"
            f'<text x="{place * STEP}" y="{HEIGHT + 12}">{edge}{"+" if last else ""}</text>'
        )
    return (
        f'<figure><svg role="img" aria-label="Texts by length in {unit}" viewBox="0 0 {STEP * len(edges)} '
        f'{HEIGHT + 18}" style="width:100%;max-width:42em;font-size:9px" fill="currentColor">{"".join(bars)}</svg>'
        f"<figcaption>Texts by length in {unit}</figcaption></figure>"
    )


def _vocabulary(vocabulary: Report) -> str:
    rows = [[name, _percent(share)] for name, share in vocabulary["unknown"].items()]
    return f"<p>Train has {vocabulary['train']:,} different {escape(vocabulary['unit'])}s.</p>" + table(
        ["split", f"{vocabulary['unit']}s unknown to train"], rows
    )


def _leaks(leaks: Report) -> str:
    found, left = leaks["found"], leaks["left"]
    tables = [("as found", found)] if found == left else [("as found", found), ("as used", left)]
    rows = [
        [f"{pair['rows_of']} in {pair['also_in']}, {state}", *(_text(pair[key]) for key in list(pair)[2:])]
        for state, pairs in tables
        for pair in pairs
    ]
    header = ["rows of", "rows", "word for word", "with the same label", "but for case, width, punctuation, space"]
    return table(header, rows)


def _rules(rules: Sequence[Report]) -> str:
    rows = [
        [
            escape(rule["rule"]),
            escape(rule["action"]),
            _text(rule["rows"]),
            _text(rule["dropped"]),
            "<br/>".join(_example(example) for example in rule["examples"][:3]) or "–",
        ]
        for rule in rules
    ]
    return table(["rule", "action", "rows", "dropped", "first of them"], rows, kind="")


def _example(example: Report) -> str:
    return f"<code>{escape(str(example['file']))}:{example['line']}</code> {escape(example['value'] or '')}"


def _conflicts(conflicts: Report) -> str:
    if not conflicts["examples"]:
        return ""
    rows = [
        [
            escape(one["text"]),
            escape(one["split"]),
            escape(", ".join(map(str, one["labels"]))),
            escape(", ".join(one["places"])),
        ]
        for one in conflicts["examples"]
    ]
    return "<h3>One text, two labels</h3>" + table(["text", "split", "labels", "where"], rows, kind="")
