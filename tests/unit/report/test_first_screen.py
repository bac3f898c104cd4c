"""First screen of the report: its sentences say the known score, range, ties, weakest label, error and next steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.results import Evaluated, Interval, Slice
from epigram.evaluation.records.summary import Corpus
from epigram.report.first_screen import Findings, FirstScreen, first_screen
from tests.support.evaluation_samples import corpus, cost, system

NOTHING = Findings()


def screen(*evaluations: Evaluated, findings: Findings = NOTHING) -> FirstScreen:
    """Return the first screen of a comparison, which chooses the system `good`."""
    summary = compare(validate_as(Corpus, corpus()), evaluations, 0.05)
    assert summary.chosen_system == "good"
    return first_screen(summary, evaluations[0].metrics, findings)


def wrong(count: int) -> list[set[int]]:
    return [set(range(count))]


def test_the_score_is_said_with_its_range_and_compared_with_a_constant_answer() -> None:
    """18 of 100 test texts are wrong; the labels alternate, so that 50 of 100 texts have each."""
    made = system("good", wrong(1), wrong(18))
    low, high = made.metrics.test_score.low, made.metrics.test_score.high
    found = screen(made)
    assert found.certainty == [
        f"About 82 of 100 new texts like these get the right label, very likely between {100 * low:.0f} and "
        f"{100 * high:.0f} of 100 (95% interval). The same answer “neg” for every text would be right for 50 of 100."
    ]
    assert found.warnings == ["The range is wide because only 100 texts test it; 400 would halve it."]


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"train": 90, "test": 40}, "40 of the 100 labels that test it are by a machine: the scores are agreement"),
        ({"test": 100}, "All 100 labels that test it are by a machine: the scores are agreement"),
        ({"train": 90, "test": 0}, "About 99 of 100 new texts like these get the right label,"),
    ],
)
def test_a_score_against_labels_of_a_machine_is_called_agreement(machine: dict[str, int], said: str) -> None:
    made = system("good", wrong(1), wrong(1))
    summary = compare(validate_as(Corpus, {**corpus(), "machine_labels": machine}), [made], 0.05)
    found = first_screen(summary, made.metrics, NOTHING).certainty[0]
    assert found.startswith(said) and ("get the label that the machine would give" in found) == bool(machine["test"])


def test_a_narrow_range_and_data_without_faults_give_no_warning() -> None:
    found = screen(system("good", wrong(1), wrong(1)))
    assert found.certainty[0].startswith("About 99 of 100") and found.warnings == []


def leak(exact: int, alike: int, of: str = "test") -> dict[str, object]:
    return {"rows_of": of, "also_in": "train", "rows": 1_000, "exact": exact, "normalised": alike}


def test_texts_of_train_in_another_split_are_a_warning_with_the_score_without_them() -> None:
    """Every tenth of the 100 test texts is in train; the two wrong rows are among the 90 that are not."""
    made = system("good", wrong(1), [{1, 2}])
    findings = Findings(leaks=[leak(100, 112), leak(0, 10, "dev"), leak(9, 9, "test")])
    first, second = screen(made, findings=findings).warnings
    rest = next(part.score for part in made.metrics.slices if part.name == "not in train")
    assert first == (
        "112 of 1,000 test texts are also in train, 100 of them exactly and the rest but for case, width or "
        "punctuation: the scores are too good for new texts. On the test texts that are not exactly in train, the "
        f"accuracy is 97.8 ({100 * rest.low:.1f} to {100 * rest.high:.1f})."
    )
    assert second.startswith("10 of 1,000 dev texts are also in train, 0 of them") and second.endswith("new texts.")


@pytest.mark.parametrize(("expected", "said"), [(30.0, ["Up to about 3 of 100 training labels"]), (29.0, [])])
def test_many_wrong_labels_are_a_warning(expected: float, said: list[str]) -> None:
    findings = Findings(suspects=60, expected_wrong=expected, judged=1_000)
    found = screen(system("good", wrong(1), wrong(1)), findings=findings)
    assert [each[:36] for each in found.warnings] == said


def test_labels_without_test_texts_are_a_warning() -> None:
    made = system("good", wrong(1), wrong(1))
    classes = [*made.metrics.classes, *(replace(made.metrics.classes[0], label=name, support=0) for name in "ab")]
    found = screen(replace(made, metrics=replace(made.metrics, classes=classes)))
    assert found.warnings == ["No test text has the label “a”, “b”: whether it is found is unknown."]


@pytest.mark.parametrize(("truncated", "warned"), [(4, False), (5, True)])
def test_many_truncated_test_texts_are_a_warning(truncated: int, warned: bool) -> None:
    made = system("good", wrong(1), wrong(1))
    found = screen(replace(made, metrics=replace(made.metrics, room=126, truncated=truncated)))
    said = "5 of 100 test texts are longer than the 126 tokens that the model reads from the beginning of a text"
    assert found.warnings == ([f"{said} (train.max_length)."] if warned else [])


def test_systems_that_the_texts_cannot_separate_are_named_with_their_scores_and_the_rest_is_counted() -> None:
    systems = [system("good", wrong(1), wrong(1)), system("near", wrong(3), wrong(1))]
    worse = [system(name, wrong(40), wrong(40)) for name in ("bad", "poor")]
    random = system("random", wrong(2), wrong(2), price=cost(parameters=0, flops=0))
    texts = "It was chosen by 100 other texts (dev), which"
    said = f"{texts} cannot separate good (99.0%) and near (97.0%): the difference may be chance."
    said += " No other one scores better there."
    assert screen(*systems, random).certainty[1:] == [said]
    assert screen(*systems, *worse).certainty[1:] == [f"{said} The other 2 systems are worse."]
    assert screen(systems[0], worse[0]).certainty[1:] == [f"{texts} show that it is better than the other system."]


@pytest.mark.parametrize(("flops", "said"), [(6, True), (5, False)])
def test_a_chosen_system_that_is_the_cheapest_of_close_ones_is_said_to_be(flops: int, said: bool) -> None:
    near = system("near", wrong(2), wrong(1), price=cost(flops=flops))
    systems = [system("good", wrong(1), wrong(1), price=cost(flops=5)), near]
    found = screen(*systems).certainty[1]
    assert ("good is the cheapest of them." in found, "No other one scores better there." in found) == (said, not said)


def test_the_weakest_label_and_the_most_frequent_error_are_counted() -> None:
    """Every second text is neg: of the first 60 texts, the 30 neg ones get the label pos."""
    found = screen(system("good", wrong(1), [set(range(0, 60, 2))]))
    assert found.failures == [
        "“neg” is the weakest label: 40.0% of its 50 test texts are found, and 100.0% of the texts that get "
        "this label are right.",
        "The most frequent error: 30 of 50 “neg” texts get the label “pos”.",
    ]
    seeds = system("good", wrong(1) * 2, [{0, 2}, {0}])
    assert "3 of 100 “neg” texts get the label “pos” (2 seeds together)." in screen(seeds).failures[0]


def test_a_label_that_is_hardly_weaker_than_the_others_is_not_named() -> None:
    """10 of 50 neg texts get the label pos: F1 is 88.9 and 90.9."""
    found = screen(system("good", wrong(1), [set(range(0, 20, 2))]))
    assert found.failures == ["The most frequent error: 10 of 50 “neg” texts get the label “pos”."]
    assert found.steps == []


def test_a_system_without_errors_has_no_most_frequent_error() -> None:
    assert screen(system("good", wrong(1), wrong(0))).failures == []


@pytest.mark.parametrize(("errors", "weak"), [(30, True), (10, False)])
def test_the_next_steps_are_labels_to_check_and_to_add(errors: int, weak: bool) -> None:
    """Neg texts are labelled pos: with 30 of 50, the F1 of neg is 57.1, and 18 points below the one of pos."""
    outlook = "More labels are expected to help: 80% now"
    findings = Findings(suspects=1_234, expected_wrong=56.4, judged=10_000, outlook=outlook)
    found = screen(system("good", wrong(1), [set(range(0, 2 * errors, 2))]), findings=findings)
    assert found.steps == [
        "Review the 1,234 suspected labels (section Data quality): up to about 56 of them are wrong. Correct these and "
        "train again.",
        "More labels are expected to help: 80% now.",
        *(["If you label more texts, begin with texts of “neg”."] if weak else []),
    ]


def test_the_advice_is_the_first_step() -> None:
    findings = Findings(suspects=1, judged=100, outlook="More labels are expected to help", advice="Install an encoder")
    first, *others = screen(system("good", wrong(1), wrong(0)), findings=findings).steps
    assert first == "Install an encoder." and len(others) == 2


def test_the_constant_answer_is_the_most_frequent_label_and_a_label_without_test_texts_is_not_the_weakest() -> None:
    made = system("good", wrong(1), [set(range(0, 60, 2))])  # 30 neg texts get the label pos
    neg, pos = made.metrics.classes
    classes = [replace(neg, support=30), replace(pos, support=70), replace(neg, label="rare", f1=0.0, support=0)]
    found = screen(replace(made, metrics=replace(made.metrics, classes=classes)))
    assert "The same answer “pos” for every text would be right for 70 of 100." in found.certainty[0]
    assert found.failures[0].startswith("“neg” is the weakest label:")


def test_the_texts_that_choose_are_dev_or_all_folds_of_train() -> None:
    evaluations = [system("good", wrong(1), wrong(1)), system("near", wrong(3), wrong(1))]
    for dev, count, texts in (
        (60, 60, "60 other texts (dev)"),
        (0, 800, "a cross-validation of the 800 training texts"),
    ):
        rows = {"train": 800, "dev": dev, "test": 300}
        summary = compare(validate_as(Corpus, {**corpus(), "rows": rows}), evaluations, 0.05)
        first = first_screen(summary, evaluations[0].metrics, NOTHING)
        said = f"It was chosen by {texts}, which cannot separate good (99.0%) and near (97.0%)"
        assert first.certainty[1].startswith(said)
        assert f"{count} development texts cannot separate it from near (97.0%)" in summary.verdict


@pytest.mark.parametrize(("high", "said"), [(0.97, True), (0.99, False)])
def test_the_worst_value_of_a_column_is_named_if_its_interval_is_below_the_score(high: float, said: bool) -> None:
    """98 of 100 test texts are right."""
    made = system("good", wrong(1), [{1, 2}])
    columns = [
        Slice(kind="column", column="by", name=name, rows=30, score=Interval(value=value, low=0.5, high=high))
        for name, value in (("web", 0.95), ("app", 0.9))
    ]
    found = screen(replace(made, metrics=replace(made.metrics, slices=[*made.metrics.slices, *columns])))
    ends = f"95% range 50.0 to {100 * high:.1f}"
    sentence = f"By by, “app” is worst: on its 30 test texts, accuracy is 90.0% ({ends}), on all 98.0%."
    assert (sentence in found.failures) == said
