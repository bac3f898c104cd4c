"""The report in headless Chromium: it fits narrow and wide windows, its tables sort and filter, and keys suffice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus
from epigram.report.data_page import render_page
from epigram.report.page import render
from epigram.report.quality import render_quality
from tests.support.evaluation_samples import corpus, data_report, system
from tests.unit.report.test_classes import LABELS
from tests.unit.report.test_report import quality

WIDTHS = (390, 1200, 1600)
TOO_WIDE = """() => [...document.querySelectorAll('.wide')]
  .filter(box => !box.matches('.matrix') && box.scrollWidth > box.clientWidth)
  .map(box => box.innerText.slice(0, 40))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the report of nine systems with long names, scored on words too; return its URI."""
    names = [f"a_system_with_a_long_name_{k}" for k in range(9)]
    wrong = [[set(range(k)), set(range(k + 3))] for k in range(9)]
    words = {"labelled": True, "words_wrong": [{1}, {2}]}
    made = [system(name, each, each, text="a long text " * 9, **words) for name, each in zip(names, wrong, strict=True)]
    summary = compare(validate_as(Corpus, corpus()), made, 0.05)
    systems = {each.metrics.system: each.metrics for each in made}
    html = render(
        summary, systems, {}, render_page(data_report(LABELS)), quality_page=render_quality(quality(25), "en")
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def tab(browser: Any, report: str) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(report)
    yield page
    page.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_but_a_matrix_scrolls_sideways(tab: Any, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    tab.wait_for_timeout(200)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(TOO_WIDE) == []


def column(tab: Any, name: str) -> list[str]:
    return tab.locator(f'#comparison tbody tr:not([hidden]) [data-label="{name}"]').all_inner_texts()


def test_a_click_or_a_key_sorts_a_table_by_number_or_text(tab: Any) -> None:
    head = tab.locator("#comparison th", has_text="test").first
    head.click()
    assert head.get_attribute("aria-sort") == "ascending"
    scores = [float(text.split()[0]) for text in column(tab, "test")]
    assert scores == sorted(scores) and len(set(scores)) > 5
    head.focus()
    tab.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(text.split()[0]) for text in column(tab, "test")] == scores[::-1]
    tab.locator("#comparison th", has_text="system").first.click()
    assert column(tab, "system") == sorted(column(tab, "system"))
    assert head.get_attribute("aria-sort") is None


def test_numbers_with_units_sort_by_size(tab: Any) -> None:
    tab.evaluate(
        """document.querySelectorAll('#comparison tbody [data-label="parameters"]').forEach((cell, k) => {
          cell.textContent = ['2 M', '900 k → 800 k', '1,234', '–', '3 k', '1 G', '7', '12', '5 M'][k];
        })"""
    )
    tab.locator("#comparison th", has_text="parameters").first.click()
    assert column(tab, "parameters") == ["–", "7", "12", "1,234", "3 k", "900 k → 800 k", "2 M", "5 M", "1 G"]


def test_a_filter_shows_the_rows_with_the_text(tab: Any) -> None:
    tab.locator("#comparison input.filter").first.fill("NAME_3")
    assert column(tab, "system") == ["a_system_with_a_long_name_3"]
    tab.locator("#comparison input.filter").first.fill("")
    assert len(column(tab, "system")) == 9


def test_only_the_chosen_system_is_open_and_a_link_opens_another(tab: Any) -> None:
    opened = "[...document.querySelectorAll('section[id^=system] details[open]')].map(each => each.parentNode.id)"
    assert tab.evaluate(opened) == ["system-a_system_with_a_long_name_0"]
    tab.locator("#comparison tbody a", has_text="name_4").click()
    tab.wait_for_function(f"{opened}.length === 2")
    assert "system-a_system_with_a_long_name_4" in tab.evaluate(opened)


def test_the_tab_key_reaches_links_folds_and_headings(tab: Any) -> None:
    reached = set()
    for _ in range(60):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.tagName"))
    assert {"SUMMARY", "A", "TH"} <= reached


def test_the_page_is_dark_where_the_reader_wants_it_and_light_on_paper(tab: Any) -> None:
    colour = "getComputedStyle(document.body).color"
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(colour) == "rgb(228, 232, 238)"
    tab.emulate_media(color_scheme="dark", media="print")
    assert tab.evaluate(colour) == "rgb(29, 35, 43)"
    assert tab.locator("nav").is_hidden() and tab.locator("input.filter").first.is_hidden()
    assert tab.locator("section#comparison").is_visible()
