"""Tests of display: external text cannot control a terminal or inject Markdown, and is still shown."""

from __future__ import annotations

import ast
import json
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from markdown_it import MarkdownIt
from torch import nn

from epigram.core.config_types import validate_as
from epigram.core.errors import DataError
from epigram.evaluation.records.summary import Summary
from epigram.models.model_card import model_card
from epigram.process import exits
from epigram.process.display import echo, escape_markdown, json_text, printable
from epigram.report.columns import comparison_markdown
from epigram.report.table import Table
from epigram.runner.dvc.process import PROGRESS, read_lines
from epigram.runner.prefect.sweep import Result, results_table
from epigram.runner.retraining.retraining import Retraining
from epigram.runner.runs import run_page

ROOT = Path(__file__).parents[3]
CODE = sorted(path for folder in ("src", "flows", "tasks") for path in (ROOT / folder).rglob("*.py"))
PRINTS = {"print", "sys.stdout.write", "sys.stderr.write", "typer.echo", "click.echo"}

PRINTED = {
    "plain": ("a b\tc\nd é 好 👩‍👧", "a b\tc\nd é 好 👩‍👧"),
    "colours": ("\x1b[31;1mred\x1b[0m \x9b31mred", "red red"),
    "cursor and screen": ("\x1b[2J\x1b[3;4Hx\x1b[?25l\x1b7\x1bc\x1b(B", "x"),
    "title": ("a\x1b]0;owned\x07b\x1b]2;owned\x1b\\c\x9d0;owned\x9cd", "abcd"),
    "title without an end": ("a\x1b]0;b", "a0;b"),
    "link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "clipboard": ("\x1bP$q\x1b\\\x1b]52;c;cm0=\x07x", "x"),
    "overwritten line": ("error: x\r\x08\x7f\x00ok\x1e", "error: xok"),
    "reversed": ("a\u202egpj.exe\u2066b\u2069", "agpj.exeb"),
    "removed parts join to nothing": ("\x1b\x1b[31m[31mx \x1b\x9b[31m", "[31mx 31m"),
    "no UTF-8": ("caf\udce9", "caf\\udce9"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_text_has_no_control_characters(name: str) -> None:
    text, shown = PRINTED[name]
    assert printable(text) == shown
    assert printable(shown) == shown


def test_a_million_openings_without_an_end_take_no_time() -> None:
    for start in ("\x9d", "\x1b]", "\x9b", "\x1b[", "\x1b[0", "\x1b "):
        assert "\x1b" not in printable(start * 1_000_000)


def test_what_stands_around_a_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\rb\x1b[K", before="\r", end="\x1b[K\n")
    assert capsys.readouterr().out == "\rab\x1b[K\n"


def test_an_error_names_a_file_without_its_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.print_error(DataError("\x1b]0;owned\x07model\x1b[2K\r/labels.json is damaged")) == 65
    assert capsys.readouterr().err == "error: model/labels.json is damaged\n"


def test_json_keeps_every_character_and_prints_none_that_controls() -> None:
    value = {"text": "".join(map(chr, range(0xA0))) + "\u202e\u2069 \ud83d好"}
    for indent in (None, 2):
        text = json_text(value, indent)
        assert json.loads(printable(text)) == value
        assert printable(text).count("\x1b") == text.count("\x1b") == 0
        assert printable(json_text({"text": "\x9b\u202e"}, indent)) == json_text({"text": "\x9b\u202e"}, indent)


def test_what_a_stage_prints_is_cleaned_where_it_is_read() -> None:
    printed = "error: row 3: label '\x1b[31mgood\x1b]0;x\x07'\n", f"{PROGRESS}50% \x1b[A\x1eof it\n"
    last_lines: deque[str] = deque()
    lines = list(read_lines(printed, last_lines))
    assert lines == ["error: row 3: label 'good'", f"{PROGRESS}50% of it"]
    assert list(last_lines) == ["error: row 3: label 'good'"]


def test_everything_is_printed_through_one_function() -> None:
    found = {
        str(path.relative_to(ROOT)): node.lineno
        for path in CODE
        if path.name != "display.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTS
    }
    assert not found
    assert len(CODE) > 200


ATTACKS = [
    "![x](http://evil.example/x.png)",
    "[x](http://evil.example)",
    "![x][y]",
    "[y]: http://evil.example/x.png",
    '<img src="http://evil.example/x.png">',
    "<script>alert(1)</script>",
    "<http://evil.example>",
    "&lt;img src=x&gt; &amp; &#33;",
    "**bold** _it_ __b__ ~~gone~~ `code` a_b_c *",
    "a | b |",
    "# heading",
    "- item",
    "12. item",
    "===",
    "---",
    "> quote",
    "```",
    "\\",
    "\\![x](http://evil.example/x.png)",
    "-3.5 to +4",
]


class Page(HTMLParser):
    """Parser that collects the start tags and the text of a rendered Markdown page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("attack", ATTACKS)
def test_escaped_markdown_shows_the_text_itself(attack: str) -> None:
    page = Page(escape_markdown(attack))
    assert (page.tags, words(page.text)) == (["p"], words(attack))
    listed = Page(f"* {escape_markdown(attack)}")
    assert (listed.tags, words(listed.text)) == (["ul", "li"], words(attack))
    cell = Page(f"| a | b |\n| --- | --- |\n| {escape_markdown(attack)} | 1 |")
    assert words(cell.text) == f"a b {words(attack)} 1"
    assert set(cell.tags) == {"table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    ("address", "escaped"),
    [
        ("see http://evil.example/x", "see http\\://evil.example/x"),
        ("WWW.evil.example", "WWW\\.evil.example"),
        ("a@evil.example", "a\\@evil.example"),
    ],
)
def test_an_address_becomes_no_link_by_itself(address: str, escaped: str) -> None:
    assert escape_markdown(address) == escaped


def test_a_line_feed_begins_no_new_line_of_markdown() -> None:
    assert escape_markdown("a\n\n# b\u2028\r\n    c\x1b[31m") == "a # b c"


def summary(text: str) -> Summary:
    row = {
        "system": text, "seeds": [0], "dev_accuracy": 0.8, "test_accuracy": 0.75, "dev_score": 0.8,
        "test_score": 0.75, "test_low": 0.7, "test_high": 0.8, "dev_std": None, "test_std": None, "macro_f1": 0.7,
        "ece": 0.1, "parameters": 1000, "parameters_pruned": 800, "depth": None, "depth_pruned": None, "flops": 1e6,
        "ms_per_text": 9.0, "texts_per_second": 1.0, "outcome": "worse", "p_dev": None, "p_test": None,
        "test_outcome": None,
    }  # fmt: skip
    values = {
        "dataset": text, "language": "en", "task": "single", "score": "accuracy", "confidence": 0.95, "alpha": 0.05,
        "splits": {"train": 8, "dev": 1, "test": 1}, "notes": [text, text], "chosen_system": text, "chosen_seed": 0,
        "cheapest_tied": None, "verdict": text, "rows": [row],
    }  # fmt: skip
    return validate_as(Summary, values)


def sweep_table(text: str) -> Table:
    results = [Result(run=text, values={text: text}, dataset=text, system=text, dev=0.5, score="accuracy")]
    return results_table(results)


def pages(text: str) -> dict[str, str]:
    """Return every Markdown page that epigram writes, with `text` as each name, label and note."""
    about = {"name": text, "labels": [text, text], "rows": {text: 3}, "notes": [text]}
    result = Retraining(promoted=True, reason=text, ingestion=text, run=text, champion=text)  # type: ignore[arg-type]
    recipe: Any = SimpleNamespace(name=text, about="about", paper="paper")
    card = model_card(recipe, nn.Linear(1, 1), [text, text], {"dataset": text}, language="en", max_length=9)
    return {
        "comparison": run_page.comparison(summary(text), [run_page.image(text, "<svg />")]),
        "data": run_page.corpus(about),
        "sweep": run_page.sweep(sweep_table(text), [text]),
        "report": run_page.report(text, text, Path("runs/x")),
        "champion": result.as_markdown(),
        "comparison.md": comparison_markdown(summary(text)),
        "README.md": card,
    }


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_page_takes_its_form_from_the_data(attack: str) -> None:
    plain = pages("word")
    for name, text in pages(attack).items():
        assert Page(text).tags == Page(plain[name]).tags, name
        assert words(attack) in words(Page(text).text), name
