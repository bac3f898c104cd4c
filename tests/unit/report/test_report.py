"""The HTML report: it opens offline, is complete, and shows user text as text."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.quality.data_quality import DataQuality, Pair, Suspect, describe_quality, outlook
from epigram.evaluation.quality.learning_curve import LearningCurve, Outlook
from epigram.evaluation.records.pruning_record import Point, PruningRecord, SeedPruning
from epigram.evaluation.records.results import (
    ClassifierAccuracy,
    Evaluated,
    Example,
    Interval,
    Piece,
    WordFaithfulness,
)
from epigram.evaluation.records.summary import Corpus
from epigram.report.page import render, render_run
from epigram.report.quality import render_quality
from epigram.report.runs_index import IndexedRun
from tests.support.evaluation_samples import corpus, cost, system

EVIL = "<script>alert(1)</script> & 很好吃"


def page(evaluations: list[Evaluated], prunings: dict | None = None, about: dict | None = None) -> str:
    summary = compare(validate_as(Corpus, about or corpus()), evaluations, 0.05)
    systems = {each.metrics.system: each.metrics for each in evaluations}
    return render(summary, systems, prunings or {}, "<p>the data page</p>")


def pruning(depths: range = range(1, 5)) -> PruningRecord:
    points = [Point(depth=d, classifier_score=0.5 + d / 10, parameters=d, flops=d) for d in depths]
    seed = SeedPruning(seed=0, layered=True, reason="two layers do nothing", threshold=0.7, depth=3, tradeoff=points)
    return PruningRecord(seeds=[seed, seed])


@pytest.fixture(scope="module")
def html() -> str:
    wrong = set(range(30))
    evaluations = [
        system("svm", [{1}, {2}], [{3}, {4}], text=EVIL, price=cost(depth=None)),
        system("cnn", [wrong, wrong], [wrong, wrong], text=EVIL),
    ]
    return page(evaluations, {"cnn": pruning()}, corpus() | {"notes": [f"A note with {EVIL}"]})


class Tags(HTMLParser):
    """Parser that collects start tags with their attributes, and elements that stay open."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_nothing_is_fetched_and_only_the_page_s_own_script_runs(html):
    tags = Tags(html).tags
    assert not {"link", "iframe", "img", "object"} & {tag for tag, _ in tags}
    assert [pairs for tag, pairs in tags if tag == "script"] == [{}]  # one script, inline, without a source
    references = [
        value or "" for _, pairs in tags for key, value in pairs.items() if key in {"href", "src", "xlink:href"}
    ]
    assert references
    assert all(value.startswith("#") for value in references)
    assert not any(key.startswith("on") for _, pairs in tags for key in pairs)
    assert not re.search(r"url\(|@import", html)
    assert not re.search(r"https?://", re.sub(r'xmlns(:\w+)?="[^"]*"', "", html))


def test_every_element_is_closed_and_every_link_leads_somewhere(html):
    parsed = Tags(html)
    assert parsed.open == []
    identities = [pairs["id"] for _, pairs in parsed.tags if "id" in pairs]
    assert len(identities) == len(set(identities))
    assert {pairs["href"][1:] for tag, pairs in parsed.tags if tag == "a"} <= set(identities)


def test_user_text_is_shown_not_run(html):
    assert html.count("<script") == 1 and "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; 很好吃" in html


def test_pictures_are_whole_svg(html):
    pictures = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(pictures) == 2 * 3 + 1  # confusion, reliability and coverage of both systems, depth of one
    for picture in pictures:
        ElementTree.fromstring(picture)


def test_everything_is_there(html):
    for part in (
        "the data page",
        "system-svm",
        "system-cnn",
        "Most confident errors",
        "Two layers do nothing.",
        "also in train",
    ):
        assert part in html
    assert "Use svm" in html
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert 'name="viewport"' in html


def test_classifiers_by_themselves_make_a_table():
    one = system("pta", [set(), set()], [{1}, set()])
    seeds = [
        replace(seed, alone=[ClassifierAccuracy(name="the label is", dev=0.5, test=0.437)])
        for seed in one.metrics.seeds
    ]
    html = page([replace(one, metrics=replace(one.metrics, seeds=seeds))])
    assert html.count("the label is") == 2 and "43.7" in html
    assert "Classifiers of the prompt" not in page([one])


def test_the_faithfulness_of_the_words_is_a_table_with_a_sentence():
    one = system("svm", [{1}, {2}], [{3}, {4}])

    def shown(top: float, random: float) -> str:
        found = WordFaithfulness(method="weights", rows=7, comprehensiveness=top, random_comprehensiveness=random)
        return page([replace(one, metrics=replace(one.metrics, faithfulness=found))])

    assert "falls by 0.31 on average; without as many random words, by 0.05." in shown(0.3125, 0.05)
    assert '<td>weights</td><td class="number">7</td><td class="number">0.312</td>' in shown(0.3121, 0.05)
    assert ["do not rely" in shown(*each) for each in ((0.31, 0.05), (0.09, 0.05), (-0.1, -0.2))] == [False, True, True]
    assert "coloured words decide" not in page([one])


def test_several_labels_a_text_make_a_page():
    labels = ("a", "b", "c")
    evaluations = [system(name, [{1}], [{2}], labels=labels, task="multi") for name in ("one", "two")]
    html = page(evaluations, about=corpus(labels, task="multi"))
    for part in ("micro-F1", "test macro-F1", "micro precision, recall", "all labels correct", "Hamming loss"):
        assert part in html
    assert "Confusion" not in html


def test_each_label_shows_the_threshold_of_every_seed():
    labels = ("a", "b", "c")
    metrics = system("one", [{1}, {1}], [{2}, {2}], labels=labels, task="multi").metrics
    first, second = metrics.seeds
    seeds = [replace(first, thresholds=[0.25, 0.5, 0.125]), replace(second, thresholds=[0.75, 0.5, 0.25])]
    evaluation = system("one", [{1}, {1}], [{2}, {2}], labels=labels, task="multi")
    html = page([replace(evaluation, metrics=replace(metrics, seeds=seeds))], about=corpus(labels, task="multi"))
    assert '<th class="number">threshold</th>' in html
    for cell in ("0.250 to 0.750", "0.500", "0.125 to 0.250"):
        assert f'<td class="number">{cell}</td>' in html
    assert "threshold</th>" not in page([system("two", [set()], [set()])])


def test_labelled_words_make_a_table_and_a_picture_that_need_no_colour():
    labelled = {"labelled": True, "words_wrong": [set(range(40, 300))]}
    html = page([system("tagger", [{1}], [{2}], **labelled), system("svm", [{1}], [{2}], labelled=True)])
    tags = Tags(html)
    assert tags.open == []
    assert re.search(r'<th class="number" title="[^"]+">token F1</th>', html)
    for part in (
        "span F1",
        "Labels of words",
        "C-F1",
        "one label per text, and labels of words",
    ):
        assert part in html
    assert html.count("Test texts with their words labelled") == 1  # only for the system that labels words
    examples = re.sub(r"\s+", " ", html[html.index('class="examples"') :])
    assert re.search(r'<span class="predicted" style="--hue:137"><u>w0</u> <small>PER</small></span>', examples)
    assert re.search(r"<small>gold (PER|LOC)</small>", examples)
    assert re.search(r"<small>(PER|LOC), gold (O|PER|LOC)</small>", examples)


def test_words_and_their_labels_are_shown_not_run():
    evaluation = system("tagger", [set()], [set()], labelled=True, words_wrong=[{1}])
    tokens = evaluation.metrics.tokens
    piece = Piece(text=EVIL, predicted="<PER>", gold="O")
    tokens = replace(tokens, labels=["O", "<PER>"], examples=[Example(row=0, pieces=[piece])])
    html = page([replace(evaluation, metrics=replace(evaluation.metrics, tokens=tokens))])
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; 很好吃 <small>&lt;PER&gt;, gold O</small>" in html
    assert "<script>alert" not in html


def test_a_corpus_of_tokens_only_says_which_system_labels_none():
    only = {"labelled": True, "tokens_only": True}
    html = page([system("tagger", [{1}], [{2}], words_wrong=[{1}], **only), system("svm", [{1}], [{2}], **only)])
    assert Tags(html).open == []
    assert "labels of words" in html
    assert "dev token F1" in html
    assert '<td class="interval">labels no tokens</td>' in html
    assert "<dt>test token F1</dt><dd>labels no tokens</dd>" in html
    assert re.search(r'title="[^"]+">token F0.5</th><th class="number" title="[^"]+">span F1</th>', html)


def test_a_system_without_layers_says_why_it_was_not_pruned():
    reason = "There is no stack of layers."
    html = page(
        [system("svm", [set()], [set()])],
        {"svm": PruningRecord(seeds=[SeedPruning(seed=0, layered=False, reason=reason)])},
    )
    assert reason in html


def test_pruning_is_averaged_over_the_seeds_that_reached_a_depth():
    shallow = SeedPruning(
        seed=1, layered=True, reason="one layer does nothing", depth=2, tradeoff=pruning(range(3, 5)).seeds[0].tradeoff
    )
    both = PruningRecord(seeds=[pruning().seeds[0], shallow])
    assert [point.depth for point in both.averaged()] == [4, 3, 2, 1]
    assert both.kept_depths == [2, 3]
    assert both.threshold is None
    assert both.reasons == ["Seed 0: two layers do nothing.", "Seed 1: one layer does nothing."]


def run_of(summary: dict, **speed: float) -> dict:
    """Return the record of a run: its stages, and the summary with the measured speeds."""
    stages = {"train@a": {"state": "Completed", "seconds": 3.21}, "compare": {"state": "Cached", "seconds": 0.0}}
    rows = [{**row, **speed} for row in summary.pop("rows")]
    about = {"name": "first", "revision": "0123456789abcdef", "wall_seconds": 12.34, "executed": 1, "stages": stages}
    place = {"finished": "2026-11-28 09:37", "machine": "a CPU, 2 cores", "model": "runs/first/model"}
    return {**summary, **about, **place, "systems": rows}


@pytest.mark.parametrize("speed", [{"ms_per_text": 1.5, "texts_per_second": 900.0}, {}])
def test_a_run_adds_its_stages_and_the_speeds_it_measured(tmp_path, speed):
    evaluations = [system(name, [{1}], [{2}]) for name in ("one", "two")]
    (tmp_path / "page.html").write_text(page(evaluations), encoding="utf-8")
    run = run_of(asdict(compare(validate_as(Corpus, corpus()), evaluations, 0.05)), **speed)
    render_run(tmp_path / "page.html", tmp_path / "report.html", run)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    for part in ("This run", "0123456789ab", "12.3 seconds", "train@a", "Completed", "the data page"):
        assert part in html
    assert "2026-11-28 09:37 · a CPU, 2 cores" in html
    assert "Previous run" not in html
    assert '<code>epigram predict runs/first/model "a text"</code>' in html
    assert ("1.50" in html) == ("Speed on this machine" in html) == ("time per text" in html) == bool(speed)
    assert Tags(html).open == []


@pytest.mark.parametrize(
    ("before", "said"), [(0.8, "+19.0 points"), (0.9904, "no change"), (0.9896, "no change"), (1.0, "-1.0 points")]
)
def test_a_run_is_compared_with_the_run_before(before, said, tmp_path):
    evaluations = [system("one", [{1}], [{2}])]
    (tmp_path / "page.html").write_text(page(evaluations), encoding="utf-8")
    run = run_of(asdict(compare(validate_as(Corpus, corpus()), evaluations, 0.05)))
    before = IndexedRun("zero", "2026-11-27", "sample", "svm", "accuracy", before, 0.7, 0.9)
    render_run(tmp_path / "page.html", tmp_path / "report.html", run | {"previous": before})
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'run: <a href="../zero/report.html">zero</a>, svm, accuracy ' in html
    assert f"% (70.0 to 90.0); this one: {said}</p>" in html


def test_the_settings_of_the_chosen_system_are_folded_and_shown_not_run() -> None:
    evaluations = [system("one", [{1}], [{2}]), system("two", [{1, 2, 3}], [{2}])]
    summary = compare(validate_as(Corpus, corpus()), evaluations, 0.05)
    systems = {each.metrics.system: each.metrics for each in evaluations}
    html = render(summary, systems, {}, "", settings=f"systems:\n  one: {{view: {EVIL}}}\n")
    assert html.count("<details><summary>Settings</summary><pre>systems:\n  one: {view: &lt;script&gt;") == 1
    assert "Settings" not in page(evaluations)


def test_a_run_of_an_edited_tree_says_so(tmp_path):
    evaluations = [system("one", [{1}], [{2}])]
    (tmp_path / "page.html").write_text(page(evaluations), encoding="utf-8")
    run = run_of(asdict(compare(validate_as(Corpus, corpus()), evaluations, 0.05)))
    for said, shown in (("0123456789abcdef", "0123456789ab"), ("0123456789abcdef-dirty", "0123456789ab-dirty")):
        render_run(tmp_path / "page.html", tmp_path / "report.html", {**run, "revision": said})
        assert f"<code>{shown}</code>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_each_section_is_about_the_system_of_its_heading() -> None:
    """The better system, which is chosen, is the second one of params.yaml."""
    wrong = set(range(30))
    html = page([system("weak", [wrong], [wrong]), system("good", [set()], [set()])])
    sections = re.split(r"<h2[^>]*>", html)
    about = {name: next(each for each in sections if each.startswith(name)) for name in ("good", "weak")}
    assert {name: "chip chosen" in section for name, section in about.items()} == {"good": True, "weak": False}


CURVE = LearningCurve(
    sizes=[50, 100, 200, 400, 800],
    accuracy=[0.62, 0.7, 0.76, 0.8, 0.83],
    floor=0.1,
    scale=2.0,
    exponent=0.5,
    rows=1_000,
    now=0.837,
    doubled=Interval(value=0.855, low=0.821, high=0.889),
    gain=Interval(value=0.018, low=-0.004, high=0.041),
    outlook="helps",
)


def suspect(row: int) -> Suspect:
    labels = {"label": f"{EVIL} a", "likely_label": f"{EVIL} b"}
    return Suspect(file="a.csv", line=row, **labels, margin=0.5, text=f"{EVIL} {row}")


def pair(row: int) -> Pair:
    texts = {"text": f"{EVIL} {row}", "other_text": EVIL}
    places = {"file": "a.csv", "line": row, "other_file": "a.csv", "other_line": 9_999}
    return Pair(**places, label=EVIL, other_label=EVIL, similarity=0.9, **texts)


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


def test_the_lines_of_several_files_have_their_names() -> None:
    other = replace(suspect(7), file="b & c.csv")
    assert "a.csv" not in render_quality(quality(2), "en")
    html = render_quality(replace(quality(2), suspects=[suspect(3), other]), "en")
    assert '<td class="number">a.csv:3</td>' in html and '<td class="number">b &amp; c.csv:7</td>' in html
    assert '<td class="number">a.csv:0<br>a.csv:9999</td>' in html


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
        ("helps", "More labelled texts are expected to help"),
        ("unclear", "Whether more labelled texts would help is unclear"),
        ("flat", "More labelled texts are not expected to help"),
    ],
)
def test_the_outlook_is_a_sentence(name: Outlook, saying: str) -> None:
    said = outlook(replace(CURVE, outlook=name))
    assert said == (
        f"{saying}: with twice the training texts, the accuracy of a quick linear model, not the chosen one, would "
        "go from about 84% to about 86%, by the learning curve"
    )
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
