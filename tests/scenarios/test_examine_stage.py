"""The stage `examine` on corpora whose wrong labels and near duplicates are known."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epigram.core.files import read_json
from epigram.core.records import read_record
from epigram.evaluation.quality.data_quality import DataQuality, write_quality
from epigram.evaluation.quality.examine_train import examine_train, sample_train
from epigram.evaluation.settings import ExamineSettings
from epigram.report.first_screen import Findings
from epigram.report.quality import render_quality
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from tests.support.bad_input import Workshop
from tests.support.certain import LABELS, WORD, lines, run, several_labels, text_of

ROWS, FLIPPED = 400, 0.05


def corpus() -> list[dict[str, Any]]:
    """Return rows in which one word decides the label, each with a word of its own, and 5% wrong labels."""
    draw = np.random.default_rng(0)
    truth = [LABELS[number] for number in draw.integers(0, 3, ROWS)]
    wrong = np.arange(ROWS) % 20 == 3  # 5%
    return [
        {
            "text": text_of([WORD[label], f"own{place}"], draw),
            "label": LABELS[(LABELS.index(label) + 1) % 3] if wrong[place] else label,
            "split": "train",
            "truth": label,
        }
        for place, label in enumerate(truth)
    ] + [
        {"text": f"some {WORD[label]} today {split}", "label": label, "split": split}
        for label in LABELS
        for split in ("dev", "test")
    ]


def examined(
    root: Path, rows: list[dict[str, Any]] | str, settings: dict[str, Any] | None = None, **source: Any
) -> Workshop:
    """Run download, validate and examine."""
    shop = Workshop(root)
    shop.params(examine=settings or {})
    content = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    read = {"reader": "jsonl", "split": "split"}
    shop.source(content, suffix="jsonl", **{"language": "en", "read": read, "labels": LABELS} | source)
    run(
        shop,
        ("download", "data/sources/reviews.yaml", "data/raw"),
        ("validate", "data/raw", "data/validated"),
        ("examine", "data/validated", "data/examined"),
    )
    return shop


def quality(shop: Workshop) -> DataQuality:
    return read_record(DataQuality, shop.root / "data/examined/quality.json")


def folder(shop: Workshop) -> Path:
    """Write the files beside a report; return their folder."""
    write_quality(shop.root, quality(shop))
    return shop.root


def table(shop: Workshop, name: str) -> list[dict[str, str]]:
    with (folder(shop) / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def curve(shop: Workshop) -> dict[str, Any]:
    return read_json(folder(shop) / "learning_curve.json")


def page(shop: Workshop) -> str:
    return render_quality(quality(shop), "en")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return examined(tmp_path_factory.mktemp("examined"), corpus())


def test_the_wrong_labels_are_found(shop: Workshop) -> None:
    rows = corpus()
    wrong = {place for place, row in enumerate(rows) if row.get("truth", row["label"]) != row["label"]}
    found = table(shop, "suspects.csv")
    right = [line for line in found if int(line["line"]) - 1 in wrong]
    assert len(right) / len(found) >= 0.95  # precision
    assert len(right) / len(wrong) >= 0.8  # recall
    for line in right:
        row = rows[int(line["line"]) - 1]
        assert (line["text"], line["label"], line["likely_label"]) == (row["text"], row["label"], row["truth"])
    margins = [float(line["margin"]) for line in found]
    assert margins == sorted(margins, reverse=True) and min(margins) > 0


def hard_corpus() -> list[dict[str, Any]]:
    """Return rows whose labels are right: two texts in five have the word of their label, the others only own words."""
    draw, rows = np.random.default_rng(2), corpus()
    for place, row in enumerate(rows[:120]):
        words = [WORD[row["truth"]]] if place % 5 < 2 else []
        row |= {"text": text_of([*words, f"own{place}"], draw), "label": row["truth"]}
    return [*rows[:120], *rows[ROWS:]]


def test_predictions_that_are_too_weak_to_judge_labels_give_no_alarm(shop: Workshop, tmp_path: Path) -> None:
    """5% wrong labels are an alarm if one word decides, and right labels are none if most texts lack it."""
    sure, weak = quality(shop), quality(examined(tmp_path, hard_corpus()))
    assert weak.expected_wrong / weak.judged > 0.05 and len(weak.suspects) > 20  # the false alarm
    assert weak.commonest < weak.accuracy < 0.65
    html = render_quality(weak, "en")
    assert "too weak to judge labels" in html and weak.suspects[0].text not in html
    assert "too weak" not in render_quality(sure, "en")
    found = Findings.of(weak, [], "")
    assert (found.suspects, found.expected_wrong) == (0, 0.0)
    found = Findings.of(sure, [], "")
    assert (found.suspects, found.expected_wrong / ROWS) == (len(sure.suspects), pytest.approx(FLIPPED, abs=0.03))


@pytest.mark.parametrize(("accuracy", "commonest", "can"), [(0.75, 0.5, True), (0.74, 0.5, False), (0.74, 0.4, True)])
def test_a_judge_avoids_half_of_the_errors_of_the_commonest_label(accuracy: float, commonest: float, can: bool) -> None:
    assert DataQuality(rows=100, accuracy=accuracy, commonest=commonest).can_judge is can


def test_the_curve_ends_at_the_share_of_right_labels(shop: Workshop) -> None:
    found = curve(shop)
    assert (found["rows"], found["judged"], found["reason"]) == (ROWS, ROWS, "")
    fitted = found["curve"]
    assert fitted["sizes"] == [20, 40, 80, 112, 160, 224, 320]
    assert fitted["accuracy"][-1] == pytest.approx(1 - FLIPPED, abs=0.03)
    assert fitted["doubled"]["low"] <= 1 - FLIPPED <= fitted["doubled"]["high"]


def test_the_page_shows_the_first_suspects_and_names_the_files(shop: Workshop) -> None:
    html = page(shop)
    first = table(shop, "suspects.csv")[0]
    assert first["text"] in html and f'<td class="number">{first["line"]}</td>' in html
    for name in ("suspects.csv", "learning_curve.json"):
        assert name in html
    assert html.count("<svg") == 1
    accuracy = curve(shop)["curve"]["accuracy"][-1]
    assert f"{100 * accuracy:.1f}% agree" in html
    assert "None among 400 texts." in html


def test_the_same_data_give_the_same_files(shop: Workshop, tmp_path: Path) -> None:
    again = examined(tmp_path, corpus())
    for file in (shop.root / "data/examined").iterdir():
        assert file.read_bytes() == (again.root / "data/examined" / file.name).read_bytes()


def test_near_duplicates_with_different_labels_are_found_whatever_they_contain(tmp_path: Path) -> None:
    rows = corpus()
    text = '=1+1, "the <b>large</b> room" and the breakfast were good but the desk did not answer'
    rows[7] = {"text": text, "label": "money", "split": "train"}
    rows[11] = {"text": text.replace("large", "small"), "label": "arts", "split": "train"}
    rows[12] = {"text": text.upper() + "!", "label": "money", "split": "train"}
    shop = examined(tmp_path, rows)
    found = table(shop, "near_duplicates.csv")
    assert [(line["line"], line["other_line"], line["label"], line["other_label"]) for line in found] == [
        ("8", "12", "money", "arts")
    ]
    (line,) = found
    assert (line["text"], line["other_text"]) == ("'" + rows[7]["text"], "'" + rows[11]["text"])  # no formulas
    assert 0.85 <= float(line["similarity"]) < 1
    assert "&lt;b&gt;large&lt;/b&gt;" in page(shop) and "<b>" not in page(shop)
    assert (
        examined(tmp_path / "strict", rows, {"similarity": 0.99})
        and table(Workshop(tmp_path / "strict"), "near_duplicates.csv") == []
    )


def test_all_near_duplicates_are_counted_and_the_most_similar_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = corpus()
    text = "the large room and the breakfast were good but the desk did not answer when we called it"
    for place, word, label in ((7, "large", "money"), (11, "largest", "arts"), (12, "small", "arts")):
        rows[place] = {"text": text.replace("large", word), "label": label, "split": "train"}
    corpus_of_pairs = ValidatedCorpus.read(examined(tmp_path, rows).root / "data/validated")
    monkeypatch.setattr("epigram.evaluation.quality.examine_train.MAX_PAIRS", 1)
    found = examine_train(corpus_of_pairs, ExamineSettings())
    assert ([(pair.line, pair.other_line) for pair in found.pairs], found.pair_count) == ([(8, 12)], 2)


def test_equal_texts_are_in_one_fold(tmp_path: Path) -> None:
    """Every text has a copy and a random label: a model that has seen the copy would be right."""
    draw = np.random.default_rng(1)
    rows = [
        {"text": f"own{place} own{place} {end}", "label": label, "split": "train"}
        for place in range(120)
        for label in [LABELS[draw.integers(3)]]
        for end in (".", "!")
    ]
    shop = examined(tmp_path, [*rows, *corpus()[-6:]])
    assert curve(shop)["curve"]["accuracy"][-1] < 0.6


def test_the_rows_that_are_judged_are_a_sample(tmp_path: Path) -> None:
    shop = examined(tmp_path, corpus(), {"rows": 100})
    found = curve(shop)
    assert (found["rows"], found["judged"]) == (ROWS, 100)
    assert found["curve"]["rows"] == ROWS
    assert max(int(line["line"]) for line in table(shop, "suspects.csv")) > 100  # not the first 100


def test_the_sample_does_not_depend_on_the_batches(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = ValidatedCorpus.read(shop.root / "data/validated")
    whole = sample_train(corpus, 150)
    assert whole.height == 150 and whole["line"].is_sorted()
    monkeypatch.setattr(ValidatedCorpus, "batches", partialmethod(ValidatedCorpus.batches, size=7))
    assert sample_train(corpus, 150).equals(whole)


def test_a_label_with_few_texts_is_not_judged(tmp_path: Path) -> None:
    rows = [row | {"label": "sport"} if row["label"] == "money" else row for row in corpus()]
    for place in (5, 6, 7, 8, 9):
        rows[place] = {"text": f"a text of its own{place % 4}", "label": "money", "split": "train"}
    found = curve(examined(tmp_path, rows))
    assert found["judged"] == ROWS - 5


@pytest.mark.parametrize(
    ("content", "source", "reason"),
    [
        (lines(several_labels), {"task": "multi"}, "a text can have several labels"),
        ([*corpus()[:12], *corpus()[-6:]], {}, "fewer than two labels have 5 different texts"),
    ],
)
def test_data_that_cannot_be_judged_give_empty_files_with_the_reason(
    content: Any, source: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    shop = examined(tmp_path, content, **source)
    assert (folder(shop) / "suspects.csv").read_text() == "file,line,label,likely_label,margin,text\n"
    heads = "file,line,label,other_file,other_line,other_label,similarity,text,other_text\n"
    assert (folder(shop) / "near_duplicates.csv").read_text() == heads
    found = curve(shop)
    assert found["curve"] is None and reason in found["reason"]
    assert reason in page(shop)


def test_labels_that_are_inferred_from_words_are_not_examined(shop: Workshop) -> None:
    corpus = replace(ValidatedCorpus.read(shop.root / "data/validated"), tokens_only=True)
    found = examine_train(corpus, ExamineSettings())
    assert "words have labels, texts have none" in found.reason
    assert (found.rows, found.judged, found.suspects, found.pairs, found.curve) == (ROWS, 0, [], [], None)


def test_few_rows_have_suspects_and_no_curve(tmp_path: Path) -> None:
    shop = examined(tmp_path, [*corpus()[:30], *corpus()[-6:]])
    found = curve(shop)
    assert found["curve"] is None and "No learning curve is fitted" in found["reason"]
    assert "No learning curve is fitted" in page(shop)
    assert found["judged"] == 30


def test_one_to_twenty_chinese_texts_are_examined(tmp_path: Path) -> None:
    rows = [
        {"text": f"这次的{thing}{words}", "label": label, "split": split}
        for thing in ("饭店", "手机", "电影", "新书", "快递", "房间", "前台", "味道")
        for words, label in (("很好，真不错", "good"), ("很差，太糟糕", "bad"))
        for split in ("train", "dev", "test")
    ]
    shop = examined(tmp_path, rows, language="zh", labels=["bad", "good"], read={"reader": "jsonl", "split": "split"})
    assert curve(shop)["judged"] == 16
    assert table(shop, "suspects.csv") == []
