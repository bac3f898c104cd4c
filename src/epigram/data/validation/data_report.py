"""Data page of the report: an HTML fragment without scripts and external resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Report = Mapping[str, Any]
Cell = str | int | float | None

HEIGHT, STEP, GAP = 120, 26, 2  # of the bars of a histogram, in SVG units
FILL = "var(--accent, #4a7fb5)"


def render_page(report: Report) -> str:
    """Return the HTML fragment for one validated corpus; `report` is the content of report.json."""
    sections = [
        f"<h2>Data: {escape(report['name'])}</h2>",
        _summary(report),
        "".join(f'<p class="note">{escape(note)}</p>' for note in report["notes"]),
        "<h3>Classes</h3>" + _classes(report["classes"], report["rows"]),
        _token_classes(report["token_classes"]),
        "<h3>Text length</h3>" + _lengths(report),
        "<h3>Vocabulary</h3>" + _vocabulary(report["vocabulary"]),
        "<h3>Texts in more than one split (leakage)</h3>" + _leaks(report["leaks"]),
        "<h3>Validation rules</h3>" + _rules(report["rules"]),
        _conflicts(report["conflicts"]),
    ]
    return '<section class="data">\n' + "\n".join(section for section in sections if section) + "\n</section>\n"


def _render_table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = ' class="num"') -> str:
    """Return an HTML table; cells must already be escaped, and the first column is the row header."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_cell(value: Cell) -> str:
    if value is None:
        return "–"
    return escape(value if isinstance(value, str) else f"{value:,}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _bar(share: float) -> str:
    return f'<span class="bar" style="display:block;min-height:.7em;width:{8 * share:.2f}em"></span>'


def _summary(report: Report) -> str:
    summary = (
        f"Language: {'Chinese' if report['language'] == 'zh' else 'English'}. {len(report['labels'])} labels, "
        f"{'one or more' if report['task'] == 'multi' else 'one'} per text."
        f"{_token_labels_sentence(report['token_labels'])}"
    )
    held_out = {"train": None, "dev": report["dev_in_train"], "test": report["test_in_train"]}
    rows = [
        [
            name,
            _format_cell(number),
            _format_cell(report["repeats"][name]),
            _format_cell(held_out[name]),
            _format_cell(report["emoji_only"][name]),
        ]
        for name, number in report["rows"].items()
    ]
    return f"<p>{summary}</p>" + _render_table(
        ["split", "rows", "repeated texts", "texts also in train", "emoji-only texts"], rows
    )


def _token_labels_sentence(token_labels: Sequence[str]) -> str:
    return f" {len(token_labels)} token labels, default {escape(token_labels[0])}." if token_labels else ""


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
    return _render_table(["label", *classes, "relative to largest class"], lines)


def _token_classes(classes: Mapping[str, Mapping[str, int]]) -> str:
    if not classes:
        return ""
    tokens = {split: sum(counts.values()) for split, counts in classes.items()}
    return "<h3>Token labels</h3>" + _classes(classes, tokens)


def _lengths(report: Report) -> str:
    longest, unit = report["longest"], report["vocabulary"]["unit"]
    histogram_units = ["characters"] if unit == "character" else list(report["length"])
    rows = [
        [name, *(_format_cell(counts[key]) for key in ("mean", "p5", "p50", "p95", "p99", "max"))]
        for name, counts in report["length"].items()
    ]
    return (
        _render_table(["unit", "mean", "5%", "median", "95%", "99%", "maximum"], rows)
        + "".join(_histogram(name, report["length"][name]) for name in histogram_units)
        + f'<p class="note">Each {escape(unit)} counts as one token. Longest text: row {longest["row"]:,} '
        f"of {longest['split']}, {longest['characters']:,} characters: “{escape(longest['text'])}…”</p>"
    )


def _histogram(unit: str, counts: Report) -> str:
    """Return an SVG bar chart of the number of texts in each length bin, all splits together."""
    sums = [sum(column) for column in zip(*counts["counts"].values(), strict=True)]
    edges, top = counts["edges"], max(sums) or 1
    bars = []
    for index, (edge, number) in enumerate(zip(edges, sums, strict=True)):
        is_last = index == len(edges) - 1
        span = f"{edge:,} or more" if is_last else f"{edge:,} to {edges[index + 1] - 1:,}"
        height = HEIGHT * number / top
        bars.append(
            f'<rect x="{index * STEP}" y="{HEIGHT - height:.1f}" width="{STEP - GAP}" height="{height:.1f}" '
            f'fill="{FILL}"><title>{span} {unit}: {number:,} texts</title></rect>'
            f'<text x="{index * STEP}" y="{HEIGHT + 12}">{edge}{"+" if is_last else ""}</text>'
        )
    return (
        f'<figure><svg role="img" aria-label="Texts by length in {unit}" viewBox="0 0 {STEP * len(edges)} '
        f'{HEIGHT + 18}" style="width:100%;max-width:42em;font-size:9px" fill="currentColor">{"".join(bars)}</svg>'
        f"<figcaption>Texts by length in {unit}</figcaption></figure>"
    )


def _vocabulary(vocabulary: Report) -> str:
    rows = [[name, _percent(share)] for name, share in vocabulary["unknown"].items()]
    return f"<p>Train has {vocabulary['train']:,} distinct {escape(vocabulary['unit'])}s.</p>" + _render_table(
        ["split", f"{vocabulary['unit']}s not in train"], rows
    )


def _leaks(leaks: Report) -> str:
    found, remaining = leaks["found"], leaks["left"]
    tables = [("source", found)] if found == remaining else [("source", found), ("after validation", remaining)]
    rows = [
        [f"{pair['rows_of']} in {pair['also_in']} ({state})", *(_format_cell(pair[key]) for key in list(pair)[2:])]
        for state, pairs in tables
        for pair in pairs
    ]
    header = [
        "splits",
        "rows",
        "same text",
        "same text and label",
        "same text, ignoring case, width, punctuation and whitespace",
    ]
    return _render_table(header, rows)


def _rules(rules: Sequence[Report]) -> str:
    rows = [
        [
            escape(rule["rule"]),
            escape(rule["action"]),
            _format_cell(rule["rows"]),
            _format_cell(rule["dropped"]),
            "<br/>".join(_example(example) for example in rule["examples"][:3]) or "–",
        ]
        for rule in rules
    ]
    return _render_table(["rule", "action", "rows", "dropped", "examples"], rows, kind="")


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
    return "<h3>Texts with conflicting labels</h3>" + _render_table(
        ["text", "split", "labels", "location"], rows, kind=""
    )
