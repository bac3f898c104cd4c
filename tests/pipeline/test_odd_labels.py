"""Labels that look like code, markup, paths or numbers, in every stage and in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from epigram.core.records import read_record
from epigram.evaluation.records.results import Metrics
from epigram.report import charts
from epigram.runner.runs import run_page
from tests.support.bad_input import Workshop

NAMES_OF_JAVASCRIPT = [
    *("constructor", "toString", "valueOf", "__proto__", "hasOwnProperty", "prototype", "isPrototypeOf", "undefined"),
    *("toLocaleString", "propertyIsEnumerable", "__defineGetter__", "datum.value", "labels[0]", "NaN", "Infinity"),
]
OTHERS = [
    *("null", "None", "true", "all", "label", "text", "O", "0", "00", "-1", "1e5", "٣", "9" * 5_000, "x" * 300),
    *("a b", "a\u2028b", "a\u2029b", "a'b\"c", "a\\b", "\\u0041", "${x}", "{{x}}", "<b>x</b>", "</script>", "]]>"),
    *("a|b", "a,b", "=1+1", "*", "..", "/etc/passwd", "\u202eabc", "👩\u200d👧", "é", "e\u0301"),
]
ODD = [*NAMES_OF_JAVASCRIPT, *OTHERS]
WORDS = [chr(0x4E00 + place) for place in range(len(ODD))]  # the text of each label is a distinct character
SYSTEMS = {"tfidf_svm": {"view": "token"}, "random": {"view": "token"}}
COMPARED = ("validated", "examined", "evaluated", "ensemble", "pruned")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return a workshop in which every stage has run on a corpus with 50 odd labels."""
    shop = Workshop(tmp_path_factory.mktemp("odd"))
    shop.params(views={"token": {"tokenizer": "token"}}, systems=SYSTEMS)
    rows = [
        {"text": word * (place + 1), "label": label, "split": split}
        for word, label in zip(WORDS, ODD, strict=True)
        for place, split in enumerate(["train", "train", "dev", "test"])
    ]
    told = {
        "read": {"reader": "jsonl", "split": "split"},
        "splits": {name: [name] for name in ("train", "dev", "test")},
    }
    source = shop.source("\n".join(map(json.dumps, rows)), suffix="jsonl", **told)
    steps: list[tuple[str, ...]] = [
        ("download", source, "data/raw"),
        ("validate", "data/raw", "data/validated"),
        ("pos_table", "data/validated", "data/pos_versions", "data/pos"),
        ("augment", "data/validated", "data/augmented"),
        ("encode", "token", "data/validated", "data/augmented", "data/pos", "data/encoded/token"),
        ("pretrain", "token", "data/encoded/token", "data/pretrained/token"),
    ]
    for name in SYSTEMS:
        models, pruned = f"data/models/{name}", f"data/pruned/{name}"
        steps += [
            ("train", name, "data/encoded/token", "data/pretrained/token", models),
            ("prune", name, "data/encoded/token", models, pruned),
            ("evaluate", name, "data/validated", "data/encoded/token", pruned, f"data/evaluated/{name}"),
        ]
    steps += [
        ("examine", "data/validated", "data/examined"),
        ("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble"),
        (
            "compare",
            "data/validated",
            "data/examined",
            "data/evaluated",
            "data/ensemble",
            "data/pruned",
            "data/compared",
        ),
    ]
    for step in steps:
        ended = shop.stage(*step)
        assert ended.code == 0, ended.err
    return shop


def written(shop: Workshop, path: str) -> Any:
    return json.loads((shop.root / path).read_text(encoding="utf-8"))


def texts_of(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("}text")]


def test_they_are_fifty_different_ones() -> None:
    assert len(ODD) == len(set(ODD)) == 50


def test_every_label_is_kept_as_it_is(shop: Workshop) -> None:
    assert set(written(shop, "data/validated/corpus.json")["labels"]) == set(ODD)
    assert set(written(shop, "data/compared/chosen/labels.json")) == set(ODD)
    summary = written(shop, "data/compared/summary.json")
    assert summary["chosen_system"] == "tfidf_svm"
    assert [row["test_accuracy"] for row in summary["rows"] if row["system"] == "tfidf_svm"] == [1.0]


def test_the_model_answers_with_them(shop: Workshop) -> None:
    ended = shop.epigram("predict", "data/compared/chosen", "--json", *WORDS)
    assert ended.code == 0, ended.err
    answers = [json.loads(line) for line in ended.out.split("\n") if line]
    assert [answer["label"] for answer in answers] == ODD
    assert set(answers[0]["probabilities"]) == set(ODD)


def test_the_report_shows_them_and_runs_none(shop: Workshop) -> None:
    page = (shop.root / "data/compared/report.html").read_text(encoding="utf-8")
    assert [label for label in ODD if f">{escape(label)}</th>" not in page] == []
    assert "<b>x</b>" not in page
    assert page.count("</script>") == page.count("<script>") == 1  # the page's own


def test_the_chart_of_each_run_has_them(shop: Workshop) -> None:
    metrics = read_record(Metrics, shop.root / "data/evaluated/tfidf_svm/metrics.json")
    drawn = texts_of(charts.confusion(metrics))
    short = [label for label in ODD if len(label) < 15]
    assert [label for label in short if drawn.count(label) != 2] == []  # on both axes


def test_the_dashboard_s_pages_are_made(shop: Workshop) -> None:
    page = run_page.corpus(written(shop, "data/validated/corpus.json"))
    assert page.startswith("# reviews\n")
    assert "50 labels" in page


@pytest.mark.parametrize("name", ["constructor", "toString", "__proto__"])
def test_a_confusion_matrix_keeps_names_of_javascript_apart(name: str) -> None:
    from types import SimpleNamespace

    counted = [[0, 0, 1], [0, 1, 3], [1, 0, 2], [1, 2, 2], [2, 2, 5]]
    metrics: Any = SimpleNamespace(labels=["b", name, "a\u2028b"], confusion=counted)
    root = ElementTree.fromstring(charts.confusion(metrics))
    cells = {
        each.get("aria-label"): float(each.get("opacity", "nan"))
        for each in root.iter()
        if each.get("aria-roledescription") == "rect mark"
    }
    shares = {"b as b": 0.25, f"b as {name}": 0.75, f"{name} as b": 0.5, f"{name} as {name}": 0.0, "b as a\u2028b": 0.0}
    assert len(cells) == 9
    for pair, share in shares.items():
        assert cells[pair] == pytest.approx(0.04 + 0.68 * share)
    labels = [each for each in texts_of(charts.confusion(metrics)) if each]  # the numbers are in elements of their own
    assert labels == ["b", name, "a\u2028b", "predicted", "b", name, "a\u2028b", "gold"]


@pytest.mark.parametrize("bad", ["a\x07b", "a\x1b[31mb", "a\tb", "a\nb", "\x7f-", "a\x85b"])
def test_control_characters_are_refused_by_validate(bad: str, tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    rows = [
        {"text": f"{word}{number}", "label": label} for number in range(9) for word, label in (("a", bad), ("b", "x"))
    ]
    content = "\n".join(map(json.dumps, rows))
    shop.validated(content, suffix="jsonl").refused(65, "9 × control character in a label")
    assert shop.left() == ["raw"]
    multi = content.replace('"label": "x"', '"label": ["x"]').replace(json.dumps(bad), json.dumps(["x", bad]))
    shop.validated(multi, suffix="jsonl", task="multi").refused(65, "9 × control character in a label")
    shop.validated(content, suffix="jsonl", labels=["x", bad]).refused(64, "the label", "has a control character")
    (tmp_path / "own.jsonl").write_text(content)
    shop.epigram("add", "own.jsonl", "--name", "own").refused(65, "own.jsonl has the label", "with a control character")
    assert not (tmp_path / "data/sources/own.yaml").exists()
