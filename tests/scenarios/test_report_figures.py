"""Each number that a report shows in several places is the same everywhere: pruned layers, leaks, two seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from epigram.evaluation.comparison.formats import abbreviate, percent
from epigram.evaluation.records.summary import Row, read_summary
from epigram.inference.predictors import measure
from epigram.models.batches import TextBatches
from epigram.report.terminal import comparison_table
from epigram.runner.runs import run_page
from epigram.text.dataset.encoded_dataset import View
from tests.support.bad_input import Workshop
from tests.support.certain import LABELS, SIZES, compare, evaluate, lines, one_label, prune, run_to_train, train
from tests.support.report_tables import cells, line_of, markdown_cells

DEEP = {
    "view": "token",
    "encoder": {"width": 16, "heads": 2, "hidden": 16, "depth": 3},
    "train": {"epochs": 2, "learning_rate": 0.005, "batch_size": 16, "precision": "fp32"},
}
ONE_LAYER = {"threshold": 0.0, "rule": "shallowest", "tolerance": 1.0, "epochs": 1}  # keeps only the first layer
USED, FOUND = (
    (4, SIZES["test"] + 4),
    (5, SIZES["test"] + 5),
)  # test rows that repeat a training text: the fifth repeats the fourth and is dropped


def with_leaks() -> str:
    """Return the certain corpus, a long text, and five test rows that repeat four training rows."""
    content = lines(one_label)
    rows = [json.loads(line) for line in content.splitlines()]
    leaked = [{**row, "split": "test"} for row in rows[:4]]
    long = {**rows[0], "text": f"{rows[0]['text']} " + "people " * 50}
    return content + "".join(json.dumps(row) + "\n" for row in [long, *leaked, leaked[-1]])


@dataclass(frozen=True)
class Reads:
    """What the stages read: splits before and in evaluate, and the number of texts of each prediction."""

    before: set[str] = field(default_factory=set)
    evaluating: set[str] = field(default_factory=set)
    predicted: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def reads() -> Reads:
    return Reads()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, reads: Reads) -> Workshop:
    """Return a finished run of a pruned Transformer and the random baseline, two seeds each."""
    made = Workshop(tmp_path_factory.mktemp("figures"))
    systems = {"transformer": DEEP, "random": {"view": "token"}}
    views = {"token": {"tokenizer": "token"}}
    made.params(systems=systems, views=views, seeds=[0, 1], validate={"on_duplicate": "drop"}, prune=ONE_LAYER)
    read = {"reader": "jsonl", "split": "split"}
    made.source(with_leaks(), suffix="jsonl", language="en", read=read, labels=LABELS)
    run_to_train(made)
    for name in systems:
        with watched(reads.before):
            train(made, name)
            prune(made, name)
    with watched(reads.evaluating), counted(reads.predicted):
        for name in systems:
            evaluate(made, name)
    compare(made)
    return made


@contextmanager
def watched(names: set[str]) -> Iterator[None]:
    """Record the names of the splits that are read from a view."""
    read_split = View.split

    def noted(view: View, name: Any) -> Any:
        names.add(name)
        return read_split(view, name)

    with mock.patch.object(View, "split", noted):
        yield


@contextmanager
def counted(texts: list[int]) -> Iterator[None]:
    """Record the number of texts of every prediction that evaluate makes."""
    predict = measure.predict

    def noted(model: Any, batches: TextBatches, **settings: Any) -> Any:
        texts.append(len(batches))
        return predict(model, batches, **settings)

    with mock.patch.object(measure, "predict", noted):
        yield


def read(shop: Workshop, path: str) -> Any:
    text = (shop.root / "data" / path).read_text(encoding="utf-8")
    return json.loads(text) if path.endswith(".json") else text


def row_of(shop: Workshop, system: str = "transformer") -> Row:
    return next(row for row in read_summary(shop.root / "data/report/summary.json").rows if row.system == system)


def section(shop: Workshop, heading: str) -> str:
    """Return the page from a heading of the Transformer's section, or from an id, to the next heading."""
    page = read(shop, "report/report.html")
    start = page.index(heading, page.index('id="system-transformer"') if heading.startswith("<h3>") else 0)
    end = re.search(r"<h3>|</section>", page[start + len(heading) :])
    assert end
    return str(page[start : start + len(heading) + end.start()])


def figure(shop: Workshop, term: str) -> str:
    """Return a number at the top of the Transformer's section."""
    found = re.search(rf"<dt>{term}</dt><dd>(.*?)</dd>", section(shop, 'id="system-transformer"'))
    assert found
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split())


def terminal(shop: Workshop) -> str:
    out = StringIO()
    Console(file=out, width=200).print(comparison_table(read_summary(shop.root / "data/report/summary.json")))
    return next(line for line in out.getvalue().splitlines() if " transformer " in line)


def dashboard(shop: Workshop) -> dict[str, str]:
    return markdown_cells(run_page.comparison(read_summary(shop.root / "data/report/summary.json"), []))


def test_layers_were_dropped_and_the_seeds_differ(shop: Workshop) -> None:
    records = read(shop, "pruned/transformer/pruning.json")["seeds"]
    assert [(record["accepted"], record["depth_full"], record["depth"]) for record in records] == [(True, 3, 1)] * 2
    first, second = read(shop, "evaluated/transformer/metrics.json")["seeds"]
    assert first["dev_score"] != second["dev_score"]


def test_no_stage_before_evaluate_reads_the_test_split(shop: Workshop, reads: Reads) -> None:
    assert reads.before == {"train", "dev"}
    assert reads.evaluating == {"dev", "test"}


def test_evaluate_predicts_the_test_split_once_for_each_model(shop: Workshop, reads: Reads) -> None:
    assert reads.predicted.count(USED[1]) == 2 * 2  # two systems with two seeds each


def test_flops_are_those_of_one_text_everywhere(shop: Workshop) -> None:
    flops = row_of(shop).flops
    for seed in read(shop, "evaluated/transformer/metrics.json")["seeds"]:
        assert seed["cost"]["flops"] == flops
    for record in read(shop, "pruned/transformer/pruning.json")["seeds"]:
        assert [point["flops"] for point in record["tradeoff"] if point["depth"] == 1] == [flops]
    assert read(shop, "report/metrics.json")["systems"]["transformer"]["flops"] == flops
    assert line_of(cells(section(shop, "<h3>Depth</h3>")), "1")[3] == abbreviate(flops)
    assert line_of(cells(section(shop, 'id="comparison"')), "transformer")[8] == abbreviate(flops)
    assert figure(shop, "FLOPs per text") == abbreviate(flops)
    assert markdown_cells(read(shop, "report/comparison.md"))["FLOPs per text"] == abbreviate(flops)


def test_parameters_before_and_after_pruning_are_the_same_everywhere(shop: Workshop) -> None:
    row = row_of(shop)
    shown = f"{abbreviate(row.parameters)} → {abbreviate(row.parameters_pruned)}"
    depths = read(shop, "pruned/transformer/pruning.json")["seeds"][0]["tradeoff"]
    assert [depths[-1]["parameters"], depths[0]["parameters"]] == [row.parameters, row.parameters_pruned]
    assert read(shop, "report/metrics.json")["systems"]["transformer"]["parameters_pruned"] == row.parameters_pruned
    card = read(shop, "pruned/transformer/seed-0/README.md")
    assert f"* parameters: {row.parameters_pruned:,}\n" in card
    table = cells(section(shop, "<h3>Depth</h3>"))
    assert [line_of(table, "3")[2], line_of(table, "1")[2]] == shown.split(" → ")
    assert line_of(cells(section(shop, 'id="comparison"')), "transformer")[7] == shown
    assert figure(shop, "parameters") == shown
    assert {line[6] for line in cells(section(shop, "<h3>Seeds</h3>"))[1:]} == {shown}
    assert markdown_cells(read(shop, "report/comparison.md"))["parameters"] == shown
    assert dashboard(shop)["parameters"] == shown
    assert shown in terminal(shop)


def test_depths_are_the_same_everywhere(shop: Workshop) -> None:
    row = row_of(shop)
    assert (row.depth, row.depth_pruned) == (3, 1)
    assert read(shop, "report/metrics.json")["systems"]["transformer"]["depth_pruned"] == 1
    assert figure(shop, "layers") == "3 → 1"
    assert {line[7] for line in cells(section(shop, "<h3>Seeds</h3>"))[1:]} == {"3 → 1"}
    depth = section(shop, "<h3>Depth</h3>")
    assert re.findall(r'<tr class="chosen"><td class="number">(\d)</td>', depth) == ["1"]
    assert depth.count("2 of 3 layers dropped") == 2


def test_the_development_score_is_the_same_everywhere(shop: Workshop) -> None:
    row, metrics = row_of(shop), read(shop, "evaluated/transformer/metrics.json")
    seeds = [seed["dev_score"] for seed in metrics["seeds"]]
    assert row.dev_score == metrics["dev_score"]["value"] == pytest.approx(sum(seeds) / 2)
    assert read(shop, "report/metrics.json")["systems"]["transformer"]["dev_score"] == row.dev_score
    assert line_of(cells(section(shop, 'id="comparison"')), "transformer")[1].split()[0] == percent(row.dev_score)
    assert markdown_cells(read(shop, "report/comparison.md"))["dev accuracy"] == percent(row.dev_score)
    assert dashboard(shop)["dev accuracy"] == percent(row.dev_score)
    assert terminal(shop).split()[2] == percent(row.dev_score)
    assert f"averaged over 2 seeds, it has the best development accuracy, {percent(row.dev_score)}%" in read(
        shop, "report/comparison.md"
    )
    assert [line[1] for line in cells(section(shop, "<h3>Seeds</h3>"))[1:]] == [percent(seed) for seed in seeds]
    for score in seeds:
        assert f"→ {percent(score)} after fine-tuning." in section(shop, "<h3>Depth</h3>")


def test_the_score_of_a_layers_classifier_is_not_called_that_of_the_model(shop: Workshop) -> None:
    points = [seed["tradeoff"] for seed in read(shop, "pruned/transformer/pruning.json")["seeds"]]
    head, *table = cells(section(shop, "<h3>Depth</h3>"))
    assert head == ["layers", "dev accuracy of the layer’s classifier", "parameters", "FLOPs per text"]
    for depth, shown in zip((3, 2, 1), table, strict=True):
        mean = sum(seed[depth - 1]["classifier_score"] for seed in points) / 2
        assert shown[:2] == [str(depth), percent(mean)]


def test_the_test_score_and_its_interval_are_the_same_everywhere(shop: Workshop) -> None:
    row, metrics = row_of(shop), read(shop, "evaluated/transformer/metrics.json")
    assert metrics["test_score"] == {"value": row.test_score, "low": row.test_low, "high": row.test_high}
    score, low, high = (percent(each) for each in (row.test_score, row.test_low, row.test_high))
    kept = read(shop, "report/metrics.json")["systems"]["transformer"]
    assert [kept["test_score"], kept["test_low"], kept["test_high"]] == [row.test_score, row.test_low, row.test_high]
    (drawn,) = [each for each in read(shop, "report/plots/scores.json") if each["system"] == "transformer"]
    assert drawn == {"system": "transformer", "test": row.test_score, "low": row.test_low, "high": row.test_high}
    comparison = section(shop, 'id="comparison"')
    assert line_of(cells(comparison), "transformer")[2].split()[0] == score
    assert f'title="{low} to {high}"' in comparison
    assert figure(shop, "test accuracy") == f"{score}% {low} to {high}"
    assert line_of(cells(section(shop, "<h3>Parts of the test set</h3>")), "all")[2:4] == [score, f"{low} to {high}"]
    spread = f"{score} [{low}, {high}]"
    assert spread in terminal(shop)
    assert spread in markdown_cells(read(shop, "report/comparison.md")).values()
    assert spread in dashboard(shop).values()
    page = read(shop, "report/report.html")
    assert f"reaches {score}% on the test set (95% interval {low} to {high})" in page


def test_rows_that_are_in_train_too_are_counted_as_they_are_used(shop: Workshop) -> None:
    (used, rows), (found, of) = USED, FOUND
    corpus = read(shop, "validated/corpus.json")
    assert (corpus["test_in_train"], corpus["rows"]["test"]) == USED
    note = (
        f"{used} of {rows} test rows have a text that is also in train; {used} of them with the same label "
        f"(in the source: {found} of {of})."
    )
    for place in ("report/report.html", "report/comparison.md"):
        assert note in read(shop, place)
    slices = read(shop, "evaluated/transformer/metrics.json")["slices"]
    assert {each["name"]: each["rows"] for each in slices if each["kind"] == "leak"} == {
        "also in train": used,
        "not in train": rows - used,
    }
    parts = cells(section(shop, "<h3>Parts of the test set</h3>"))
    assert [line_of(parts, name)[1] for name in ("all", "also in train")] == [str(rows), str(used)]
    page = read(shop, "report/report.html")
    data = cells(page[page.index('<section class="data">') :])
    splits = data[: next(place for place, row in enumerate(data) if row[0] == "label")]
    assert line_of(splits, "test")[1:4] == [str(rows), str(0), str(used)]
    assert line_of(data, "test in train (source)")[1:3] == [str(of), str(found)]
    assert line_of(data, "test in train (after validation)")[1:3] == [str(rows), str(used)]


def test_the_rows_of_a_split_are_the_same_everywhere(shop: Workshop) -> None:
    train_rows, dev_rows, rows = SIZES["train"] + 1, SIZES["dev"], USED[1]
    metrics = read(shop, "evaluated/transformer/metrics.json")
    assert sum(each["support"] for each in metrics["classes"]) == rows
    assert sum(cell[2] for cell in metrics["confusion"]) == 2 * rows  # two seeds
    assert read_summary(shop.root / "data/report/summary.json").splits == {
        "train": train_rows,
        "dev": dev_rows,
        "test": rows,
    }
    assert f"train {train_rows} · dev {dev_rows} · test {rows}</p>" in read(shop, "report/report.html")
    assert sum(int(line[4]) for line in cells(section(shop, "<h3>Labels</h3>"))[1:]) == rows
