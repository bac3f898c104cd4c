"""The section "Data quality" of the report: what is shown, what is said, and that texts are shown as text."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from epigram.evaluation.quality.data_quality import DataQuality, Pair, Suspect
from epigram.evaluation.quality.learning_curve import LearningCurve, Outlook
from epigram.evaluation.records.results import Interval
from epigram.report.quality import describe_quality, outlook, render_quality

EVIL = "<script>alert(1)</script> & 很好吃"
CURVE = LearningCurve(
    sizes=[50, 100, 200, 400, 800],
    accuracy=[0.62, 0.7, 0.76, 0.8, 0.83],
    floor=0.1,
    scale=2.0,
    exponent=0.5,
    rows=1_000,
    now=0.837,
    doubled=Interval(value=0.855, low=0.821, high=0.889),
    outlook="helps",
)


def suspect(row: int) -> Suspect:
    return Suspect(row=row, label=f"{EVIL} a", likely_label=f"{EVIL} b", margin=0.5, text=f"{EVIL} {row}")


def pair(row: int) -> Pair:
    texts = {"text": f"{EVIL} {row}", "other_text": EVIL}
    return Pair(row=row, label=EVIL, other_row=9_999, other_label=EVIL, similarity=0.9, **texts)


def quality(count: int) -> DataQuality:
    return DataQuality(
        rows=2_000,
        judged=1_000,
        accuracy=0.83,
        compared=1_900,
        suspects=[suspect(row) for row in range(count)],
        pairs=[pair(row) for row in range(count)],
        pair_count=count,
        curve=CURVE,
    )


def test_texts_and_labels_are_shown_not_run() -> None:
    html = render_quality(quality(3), "en")
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; 很好吃") == 3 * 3 + 3 * 4


def test_the_first_twenty_are_shown_and_all_are_counted() -> None:
    html = render_quality(quality(25), "en")
    assert "25 labels are suspected" in html and "25 pairs among 1,900 texts" in html
    assert html.count("the first 20 are shown") == 2
    assert '<td class="number">19</td>' in html and '<td class="number">20</td>' not in html
    assert "the first 20" not in render_quality(quality(20), "en")


def test_nothing_found_is_said() -> None:
    html = render_quality(quality(0), "en")
    assert "No label is suspected to be wrong." in html and "None among 1,900 texts." in html


def test_the_chart_is_whole_svg_with_all_points() -> None:
    html = render_quality(quality(1), "en")
    svg = html[html.index("<svg") : html.index("</svg>") + 6]
    ElementTree.fromstring(svg)
    for point in ("50; accuracy: 62%", "800; accuracy: 83%", "2k; accuracy: 0.821; high: 0.889", "2k; accuracy: 85.5%"):
        assert f"labelled rows: {point}" in svg
    assert svg.count('aria-roledescription="circle"') == len(CURVE.sizes) + 1


@pytest.mark.parametrize(
    ("name", "saying"),
    [
        ("helps", "More labels are expected to help"),
        ("unclear", "Whether more labels would help is unclear"),
        ("flat", "More labels are not expected to help"),
    ],
)
def test_the_outlook_is_a_sentence_with_its_interval(name: Outlook, saying: str) -> None:
    said = outlook(replace(CURVE, outlook=name))
    assert said == f"{saying}: accuracy 83.7% now, 85.5% with twice the rows (95% interval 82.1 to 88.9)"
    assert said in render_quality(replace(quality(1), curve=replace(CURVE, outlook=name)), "en")


def test_the_log_counts_what_was_found() -> None:
    assert describe_quality(replace(quality(3), curve=None)) == (
        "3 suspected labels in 1,000 rows; 3 pairs of near duplicates with different labels"
    )
    assert describe_quality(DataQuality(rows=5, reason="No labels.")) == "No labels."


def test_pairs_that_are_left_out_are_counted() -> None:
    more = replace(quality(25), pair_count=1_234)
    html = render_quality(more, "en")
    assert "1,234 pairs among 1,900 texts; the first 20 are shown" in html
    assert "<code>near_duplicates.csv</code> has the first 25." in html
    assert "<code>near_duplicates.csv</code> has all." in render_quality(quality(25), "en")
    assert "; 1,234 pairs of near duplicates with different labels (near_duplicates.csv has the first 25); " in (
        describe_quality(more)
    )
