"""Choices made on dev, with numbers computed by hand, on data where test would lead to another choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.arrays import Floats
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.results import Decision, Evaluated
from epigram.evaluation.records.summary import Corpus, Summary
from epigram.evaluation.settings import EvaluateSettings, Preference
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from tests.support.evaluation_samples import corpus, cost, system

SETTINGS = EvaluateSettings(resamples=200, surest_errors=5)
TWO = Target(task="single", labels=["neg", "pos"], metric=metric_of("auto", "single", []))
BOTH = Target(task="multi", labels=["a", "b"], metric=metric_of("auto", "multi", []))


def split(labels: np.ndarray) -> GoldSplit:
    count = len(labels)
    return GoldSplit(labels=labels, rows=np.arange(count), texts=["text"] * count, in_train=np.zeros(count, bool))


def judged(
    name: str,
    target: Target,
    dev: GoldSplit,
    test: GoldSplit,
    said: tuple[Floats, Floats],
    decision: Decision = "threshold",
    temperatures: list[float] | None = None,
) -> Evaluated:
    """Return the evaluation of a system with the probabilities `said` on dev and test, (K, N, C) each."""
    seeds = list(range(len(said[0])))
    return evaluate_system(
        name, target, seeds=seeds, dev=dev, test=test, dev_output=SystemOutput(probabilities=said[0]),
        test_output=SystemOutput(probabilities=said[1]), costs=[cost()] * len(seeds), settings=SETTINGS,
        decision=decision, temperatures=temperatures,
    )  # fmt: skip


def compared(*evaluations: Evaluated, prefer: Preference = "cheapest") -> Summary:
    return compare(validate_as(Corpus, corpus()), evaluations, 0.05, prefer)


def four_fifths_sure(right: int, of: int) -> Floats:
    """Return (of, 2): class 0 has probability 0.8 in the first `right` rows and 0.2 in the others."""
    first = np.where(np.arange(of) < right, 0.8, 0.2)
    return np.stack([first, 1 - first], axis=1)


def test_the_calibration_error_is_that_of_each_seed_with_and_without_its_temperature() -> None:
    zeros = split(np.zeros(100, np.int64))
    said = np.stack([four_fifths_sure(90, 100)] * 2)
    metrics = judged("one", TWO, zeros, zeros, (said, said), temperatures=[2.0, 1.0]).metrics
    found = [seed.calibration for seed in metrics.seeds]
    assert [each.temperature for each in found] == [2.0, 1.0]
    assert [each.ece for each in found] == pytest.approx([0.1, 0.1])  # accuracy 0.9 at 0.8
    raw = 16 / 17  # the odds 4 are those at temperature 2, so 4² without it; 90 rows are right with 16/17
    assert [each.ece_uncalibrated for each in found] == pytest.approx([raw - 0.9, 0.1])
    assert [each.brier for each in found] == pytest.approx([0.9 * 2 * 0.2**2 + 0.1 * 2 * 0.8**2] * 2)
    assert metrics.calibration.temperature == 1.5


def test_the_minimum_confidence_is_chosen_on_dev_and_judged_on_test() -> None:
    """Ten dev texts have the confidences 0.50, 0.55, …, 0.95. On test, all of 0.9 are right and all of 0.6 wrong."""
    dev = np.stack([np.arange(50, 100, 5) / 100, 1 - np.arange(50, 100, 5) / 100], 1)
    test = np.repeat([[0.9, 0.1], [0.6, 0.4]], [3, 5], axis=0)
    gold = np.repeat([0, 1], [3, 5])
    found = judged("one", TWO, split(np.zeros(10, np.int64)), split(gold), (dev[None], test[None])).metrics.coverage
    by_share = {point.dev_coverage: point for point in found}
    assert [(by_share[s].confidence, by_share[s].coverage, by_share[s].accuracy) for s in (1.0, 0.9, 0.8)] == [
        (0.0, 1.0, 3 / 8), (0.55, 1.0, 3 / 8), (0.6, 1.0, 3 / 8)
    ]  # fmt: skip
    assert (by_share[0.7].confidence, by_share[0.7].coverage, by_share[0.7].accuracy) == (0.65, 3 / 8, 1.0)
    assert (by_share[0.1].confidence, by_share[0.1].coverage, by_share[0.1].accuracy) == (0.95, 0.0, None)


def test_a_minimum_confidence_keeps_at_least_its_share_of_dev() -> None:
    """Half of three dev texts are two, and 95% of them are all three."""
    zeros, p = split(np.zeros(3, np.int64)), np.array([0.6, 0.7, 0.8])
    said = np.stack([p, 1 - p], 1)[None]
    points = judged("one", TWO, zeros, zeros, (said, said)).metrics.coverage
    assert {0.5: 0.7, 0.95: 0.6}.items() <= {point.dev_coverage: point.confidence for point in points}.items()


def test_each_seed_has_a_minimum_confidence_of_its_own() -> None:
    """The second seed is less confident everywhere; its own minimum keeps as many texts."""
    zeros = split(np.zeros(4, np.int64))
    first, second = np.array([0.6, 0.7, 0.8, 0.9]), np.array([0.52, 0.54, 0.56, 0.58])
    said = np.stack([np.stack([p, 1 - p], 1) for p in (first, second)])
    points = judged("one", TWO, zeros, zeros, (said, said)).metrics.coverage
    half = next(point for point in points if point.dev_coverage == 0.5)
    assert (half.confidence, half.coverage) == pytest.approx(((0.8 + 0.56) / 2, 0.5))


def test_several_labels_have_no_minimum_confidence() -> None:
    truth = split(GOLD)
    assert judged("one", BOTH, truth, truth, (DEV_SAID, TEST_SAID)).metrics.coverage == []


# Two labels, each present in the first 20 of 40 rows. The thresholds 0.2 and 0.8 separate them on dev, 0.45 and 0.35 on
# test.
GOLD = np.repeat([[1, 1], [0, 0]], 20, axis=0)
DEV_SAID = np.repeat([[0.3, 0.9], [0.1, 0.7]], 20, axis=0)[None]
TEST_SAID = np.repeat([[0.6, 0.5], [0.3, 0.2]], 20, axis=0)[None]


def test_the_thresholds_are_those_of_dev() -> None:
    truth = split(GOLD)
    metrics = judged("one", BOTH, truth, truth, (DEV_SAID, TEST_SAID)).metrics
    assert metrics.seeds[0].thresholds == pytest.approx([0.2, 0.8])
    assert (metrics.dev.micro_f1, metrics.dev.accuracy) == (1.0, 1.0)
    # test: all 40 rows get label a, 20 of them correctly; none of the 20 rows of label b gets it
    assert metrics.test.micro_f1 == pytest.approx(2 * 20 / (40 + 40))
    assert (metrics.test.micro_precision, metrics.test.micro_recall) == (0.5, 0.5)
    assert metrics.test_score.value == metrics.test.micro_f1
    assert [(each.precision, each.recall) for each in metrics.classes] == [(0.5, 1.0), (0.0, 0.0)]


def test_systems_are_compared_on_test_by_the_thresholds_of_dev() -> None:
    """`steady` is slightly worse on dev; its thresholds fit test, while those of the chosen system do not."""
    truth, steady = split(GOLD), DEV_SAID.copy()
    steady[0, 0] = steady[0, 0, ::-1]
    first = judged("chosen", BOTH, truth, truth, (DEV_SAID, TEST_SAID))
    second = judged("steady", BOTH, truth, truth, (steady, DEV_SAID))
    chosen, other = compared(first, second).rows
    assert (chosen.system, other.outcome, other.test_outcome) == ("chosen", "tie", "better")
    assert (chosen.test_score, other.test_score) == (0.5, 1.0)


def test_the_labels_of_a_decoder_are_those_above_one_half() -> None:
    """On dev every row gets label b only, 20 correctly; on test only label a of the 20 rows is above 0.5."""
    truth = split(GOLD)
    metrics = judged("one", BOTH, truth, truth, (DEV_SAID, TEST_SAID), "decoder").metrics
    assert metrics.decision == "decoder"
    assert metrics.seeds[0].thresholds == [0.5, 0.5]
    assert (metrics.dev.micro_f1, metrics.dev.accuracy) == (2 * 20 / (40 + 40), 0.0)
    assert metrics.test.micro_f1 == pytest.approx(2 * 20 / (20 + 40))


def test_systems_are_compared_by_their_own_decisions() -> None:
    """Both have the same probabilities; by the decision of the decoder, every row has one error."""
    truth, said = split(GOLD), (DEV_SAID, TEST_SAID)
    found = compared(judged("decoder", BOTH, truth, truth, said, "decoder"), judged("tuned", BOTH, truth, truth, said))
    assert [(row.system, row.dev_score, row.outcome) for row in found.rows] == [
        ("tuned", 1.0, "chosen"),
        ("decoder", 0.5, "worse"),
    ]


def wrong(*rows: int) -> list[set[int]]:
    return [set(range(*rows))]


def test_ties_are_judged_on_dev() -> None:
    """McNemar's exact test by hand: 3 rows to 0 give 2·2⁻³, 39 to 0 give 2·2⁻³⁹; Holm doubles the lower p-value."""
    summary = compared(
        system("worse_on_test", wrong(3), wrong(40)),
        system("worse_on_dev", wrong(40), wrong(3)),
        system("best", wrong(0), wrong(1)),
    )
    rows = {row.system: row for row in summary.rows}
    assert [row.system for row in summary.rows] == ["best", "worse_on_test", "worse_on_dev"]
    assert (rows["worse_on_test"].outcome, rows["worse_on_test"].test_outcome) == ("tie", "worse")
    assert (rows["worse_on_dev"].outcome, rows["worse_on_dev"].test_outcome) == ("worse", "tie")
    assert rows["worse_on_test"].p_dev == pytest.approx(2 * 2**-3)
    assert rows["worse_on_dev"].p_dev == pytest.approx(2 * 2 * 2**-40)
    assert rows["worse_on_test"].p_test == pytest.approx(2 * 2 * 2**-39)
    assert rows["worse_on_dev"].p_test == pytest.approx(2 * 2**-2)
    assert (rows["best"].p_dev, rows["best"].p_test, rows["best"].test_outcome) == (None, None, None)
    assert summary.cheapest_tied == "worse_on_test"


def test_the_seed_of_the_chosen_model_is_the_best_on_dev() -> None:
    """Three seeds: the first is the best on test, the last is the best on dev."""
    found = compared(system("one", [{1, 2}, {1, 2, 3}, {4}], [set(), {1, 2, 3}, {1, 2, 3, 4}]))
    assert found.chosen_seed == 2
    assert found.rows[0].dev_score == pytest.approx((0.98 + 0.97 + 0.99) / 3)


def test_the_best_mean_over_the_seeds_is_chosen_and_not_the_best_seed() -> None:
    steady = system("steady", [set(range(4))] * 3, [set(range(9))] * 3)
    lucky = system("lucky", [set(), set(range(10)), set(range(10))], [set()] * 3)
    assert compared(lucky, steady).chosen_system == "steady"


def surely(right: int, *, sure: float, wrongly: float = 0.8, of: int = 100) -> Floats:
    """Return (1, of, 2): class 0 has probability `sure` in the first `right` rows, 1 - `wrongly` in the others."""
    first = np.where(np.arange(of) < right, sure, 1 - wrongly)
    return np.stack([first, 1 - first], axis=1)[None]


def of_class_0(name: str, dev: Floats) -> Evaluated:
    """Return the evaluation on dev rows of class 0; test has ten of them."""
    zeros = split(np.zeros(dev.shape[1], np.int64))
    return judged(name, TWO, zeros, split(np.zeros(10, np.int64)), (dev, dev[:, :10]))


def test_the_best_of_the_ties_has_the_lowest_log_loss() -> None:
    """`right` has the most rows right, `sure` two fewer; `few` has the lowest loss but is significantly worse."""
    systems = [
        of_class_0("right", surely(90, sure=0.6, wrongly=0.6)),  # -0.9 ln 0.6 - 0.1 ln 0.4 = 0.551
        of_class_0("sure", surely(88, sure=0.8)),  # -0.88 ln 0.8 - 0.12 ln 0.2 = 0.389
        of_class_0("few", surely(60, sure=0.999, wrongly=0.51)),  # -0.6 ln 0.999 - 0.4 ln 0.49 = 0.286
    ]
    summary = compared(*systems, prefer="best")
    assert [(row.system, row.outcome) for row in summary.rows] == [
        ("right", "tie"),
        ("sure", "chosen"),
        ("few", "worse"),
    ]
    assert [row.dev_loss for row in summary.rows] == pytest.approx([0.551, 0.389, 0.286], abs=1e-3)
    said = "best, 90.0% of right. It has the lowest development log loss, 0.3895 instead of 0.5514, and reaches"
    assert said in summary.verdict
    assert compared(*systems).chosen_system == "right"  # as cheap as the others


def with_ensemble(fixed: int, broken: int, metric: str = "accuracy", prefer: Preference = "best") -> Summary:
    """Compare a member that is wrong on 20 rows with an ensemble that is right on `fixed` of them, wrong on others."""
    ensemble = set(range(fixed, 20)) | set(range(50, 50 + broken))
    systems = [("ensemble", [ensemble]), ("member", [set(range(20))])]
    return compared(*(system(name, dev, wrong(9), metric=metric) for name, dev in systems), prefer=prefer)


@pytest.mark.parametrize("prefer", ["best", "cheapest"])
@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
@pytest.mark.parametrize(("fixed", "broken", "chosen"), [(7, 4, "member"), (8, 4, "ensemble"), (4, 4, "member")])
def test_an_ensemble_is_chosen_if_it_is_better_by_more_than_the_standard_error(
    metric: str, prefer: Preference, fixed: int, broken: int, chosen: str
) -> None:
    """Rows that one alone gets right: 7 and 4 of 100 differ by 3 < √(11 − 0.09); 8 and 4 by 4 > √(12 − 0.16).

    Errors are as frequent in both labels, where a row counts as much in macro-F1 as in accuracy.
    """
    summary = with_ensemble(fixed, broken, metric, prefer)
    assert summary.chosen_system == chosen
    assert summary.rows[0].system == chosen
    assert {row.system: row.outcome for row in summary.rows}["ensemble"] == (
        "chosen" if chosen == "ensemble" else "tie"
    )


def test_the_verdict_says_why_the_ensemble_is_not_chosen() -> None:
    said = with_ensemble(7, 4).verdict
    assert said.startswith("Use member (seed 0): it has the best development accuracy of a single system, 80.0%, and ")
    assert (
        "The ensemble is not chosen: its development accuracy, 83.0%, is not above 80.0% of member by more than the "
        "standard error of the difference, 3.3 points."
    ) in said
    assert "member (seed 0): it has the best development accuracy, 80.0%" in with_ensemble(4, 5).verdict
    assert "not chosen" not in with_ensemble(8, 4).verdict
    losses = with_ensemble(4, 4, "log_loss").verdict  # the same losses in other rows
    assert "its development log loss, 0.5004, is not below 0.5004 of member by more than" in losses


@pytest.mark.parametrize(("metric", "chosen"), [("accuracy", "ensemble"), ("macro_f1", "member")])
def test_an_ensemble_is_judged_by_the_metric_of_the_project(metric: str, chosen: str) -> None:
    """Eight more of 90 rows of the frequent label are right, and three fewer of 10 rows of the rare one.

    Accuracy: 5 rows, and √(11 − 0.25) = 3.3. Macro-F1: 77.5 against 75.1, less than the error that 10 rows leave.
    """
    gold = np.repeat([0, 1], [90, 10])
    target = replace(TWO, metric=metric_of(metric, "single", ["neg", "pos"]))
    said = {
        name: np.repeat([[0.8, 0.2], [0.2, 0.8], [0.8, 0.2], [0.2, 0.8]], counts, axis=0)[None]
        for name, counts in (("member", (80, 10, 2, 8)), ("ensemble", (88, 2, 5, 5)))
    }
    truth = split(gold)
    assert compared(*(judged(n, target, truth, truth, (p, p)) for n, p in said.items())).chosen_system == chosen


def test_a_member_with_a_lower_score_is_preferred_to_an_ensemble_with_the_lowest_log_loss() -> None:
    sure, unsure = surely(82, sure=0.9, wrongly=0.6), surely(82, sure=0.6)
    systems = of_class_0("ensemble", sure), of_class_0("member", unsure)
    assert compared(*systems, prefer="best").chosen_system == "member"


def test_the_optimism_is_of_the_systems_that_can_be_chosen() -> None:
    """The refused ensemble is the best in most resamples; the member replaces it, and no choice is left."""
    found = with_ensemble(7, 4)
    assert found.optimism == pytest.approx(0, abs=0.002)
    assert "As the best of" not in found.verdict


def test_the_verdict_names_the_best_that_the_others_are_tied_with_and_the_chosen_one_whose_price_it_compares() -> None:
    systems = [
        of_class_0("right", surely(90, sure=0.6, wrongly=0.6)),
        of_class_0("sure", surely(88, sure=0.8)),
        of_class_0("cheap", surely(87, sure=0.6, wrongly=0.6)),
    ]
    seeds = [replace(each, cost=cost(flops=1e6)) for each in systems[2].metrics.seeds]
    systems[2] = replace(systems[2], metrics=replace(systems[2].metrics, seeds=seeds))
    summary = compared(*systems, prefer="best")
    assert summary.chosen_system == "sure"
    wanted = "cannot separate right from cheap (87.0%), which needs 1 M FLOPs per text instead of 5 M of sure."
    assert f". 100 development texts {wanted}" in summary.verdict


def test_the_log_loss_of_several_labels_is_the_mean_over_the_labels() -> None:
    dev, gold = np.array([[[0.9, 0.2], [0.6, 0.5]]]), np.array([[1, 0], [0, 1]])
    found = scored_system(judged("one", BOTH, split(gold), split(gold), (dev, dev))).dev_loss
    assert found == pytest.approx(-np.log(0.9 * 0.8 * 0.4 * 0.5) / 4)


def test_the_log_loss_is_the_mean_over_the_seeds() -> None:
    dev = np.concatenate([surely(100, sure=0.6), surely(100, sure=0.9)])
    found = scored_system(of_class_0("one", dev)).dev_loss
    assert found == pytest.approx(-np.log(0.6 * 0.9) / 2)


def test_numbers_of_a_decoder_have_no_log_loss() -> None:
    dev, gold = np.array([[[0.9, 0.2], [0.6, 0.5]]]), np.array([[1, 0], [0, 1]])
    found = judged("one", BOTH, split(gold), split(gold), (dev, dev), decision="decoder")
    assert scored_system(found).dev_loss is None


def test_the_random_baseline_is_not_the_likeliest() -> None:
    """It is the surer one, and tied on few rows, but has no parameters."""
    systems = [
        of_class_0("some", surely(9, sure=0.6, wrongly=0.6, of=10)),
        of_class_0("random", surely(8, sure=0.9, of=10)),
    ]
    for parameters, name in [(0, "some"), (1, "random")]:
        seeds = [replace(each, cost=cost(parameters=parameters)) for each in systems[1].metrics.seeds]
        other = replace(systems[1], metrics=replace(systems[1].metrics, seeds=seeds))
        assert compared(systems[0], other, prefer="best").chosen_system == name


def test_where_words_are_scored_the_best_is_that_with_the_highest_score() -> None:
    words = [
        system(name, wrong(0), wrong(9), labelled=True, tokens_only=True, words_wrong=wrong(*rows))
        for name, rows in (("some", (0, 1, 2)), ("one", (0,)))
    ]
    assert [scored_system(each).dev_loss for each in words] == [None, None]
    assert compared(*words, prefer="best").chosen_system == "one"


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_of_several_ties_the_one_with_the_fewest_flops_is_the_cheapest(order: tuple[int, ...]) -> None:
    """The cheapest tie is neither the first, the last nor the smallest tie, nor the cheapest of all systems.

    It is chosen, although another is better on dev, unless the best is preferred.
    """
    systems = [
        system("best", wrong(0), wrong(9), price=cost(flops=8e6, parameters=50)),
        system("dear", wrong(1), wrong(9), price=cost(flops=9e6, parameters=10)),
        system("cheap", wrong(2), wrong(9), price=cost(flops=2e6, parameters=900)),
        system("middle", wrong(3), wrong(9), price=cost(flops=5e6, parameters=20)),
        system("worst", wrong(40), wrong(9), price=cost(flops=1e3, parameters=1)),
    ]
    ordered = [systems[n] for n in order]
    chosen = compared(*ordered)
    ties = [("dear", "tie"), ("cheap", "chosen"), ("middle", "tie")]
    assert [(row.system, row.outcome) for row in chosen.rows] == [("best", "tie"), *ties, ("worst", "worse")]
    assert (chosen.chosen_system, chosen.cheapest_tied) == ("cheap", "cheap")
    close = "cannot separate best from dear (99.0%) and middle (97.0%), which are not cheaper than cheap."
    assert f". 100 development texts {close}" in chosen.verdict
    summary = compared(*ordered, prefer="best")
    ties = [("dear", "tie"), ("cheap", "tie"), ("middle", "tie")]
    assert [(row.system, row.outcome) for row in summary.rows] == [("best", "chosen"), *ties, ("worst", "worse")]
    assert (summary.chosen_system, summary.cheapest_tied) == ("best", "cheap")
    close = "cannot separate it from dear (99.0%), cheap (98.0%) and middle (97.0%)"
    wanted = f". 100 development texts {close}; cheap is the cheapest, with 2 M FLOPs per text instead of 8 M."
    assert wanted in summary.verdict


def test_of_ties_of_equal_flops_the_one_with_the_fewest_parameters_is_the_cheapest() -> None:
    systems = [system("best", wrong(0), wrong(9), price=cost(flops=5e6, parameters=50))]
    sizes = (("large", 300), ("small", 100), ("medium", 200))
    systems += [system(name, wrong(2), wrong(9), price=cost(flops=1e6, parameters=size)) for name, size in sizes]
    assert compared(*systems).cheapest_tied == "small"


@pytest.mark.parametrize(
    ("flops", "said"), [(8e6, "which is not cheaper"), (7.9e6, "7.9 M FLOPs per text instead of 8 M")]
)
def test_a_tie_that_costs_as_much_is_not_called_cheaper(flops: float, said: str) -> None:
    best = system("best", wrong(0), wrong(9), price=cost(flops=8e6))
    assert said in compared(best, system("tied", wrong(1), wrong(9), price=cost(flops=flops))).verdict


def test_costs_are_the_median_of_the_seeds() -> None:
    """The depths are 2, 5 and 6 and the FLOPs 10, 30 and 80: the medians differ from the means."""
    truth = split(np.zeros(10, np.int64))
    said = np.stack([four_fifths_sure(9, 10)] * 3)
    prices = [cost(parameters=p, flops=f, depth=d) for p, f, d in ((100, 10.0, 2), (900, 80.0, 6), (200, 30.0, 5))]
    found = evaluate_system(
        "one", TWO, seeds=[0, 1, 2], dev=truth, test=truth, dev_output=SystemOutput(probabilities=said),
        test_output=SystemOutput(probabilities=said), costs=prices, settings=SETTINGS,
    )  # fmt: skip
    (row,) = compared(found).rows
    assert (row.parameters_pruned, row.parameters, row.flops, row.depth_pruned) == (200, 400, 30.0, 5)
    assert (row.parameters_without_embeddings, row.batch_macs) == (20, 6_000.0)
    old = [replace(seed, cost=replace(seed.cost, batch_macs=None)) for seed in found.metrics.seeds]
    (row,) = compared(replace(found, metrics=replace(found.metrics, seeds=old))).rows
    assert row.batch_macs is None


def test_the_cheaper_tie_is_chosen_with_its_own_seed_and_the_verdict_gives_the_reason() -> None:
    """Dev: 99 and 98% of 100 rows, tied; the cheaper system's second seed is its best, the other's is its first."""
    best = system("best", [{0}, {0, 1}, {0}], [{1}] * 3, price=cost(flops=8e6))
    cheap = system("cheap", [{0, 1}, {0}, {0, 1, 2}], [{1, 2}] * 3, price=cost(flops=2e6))
    summary = compared(best, cheap)
    assert (summary.chosen_system, summary.chosen_seed) == ("cheap", 1)
    assert summary.verdict.startswith(
        "Use cheap (seed 1): 100 development texts cannot separate its accuracy, 98.0%, from the best, 98.7% of best. "
        "It needs 2 M FLOPs per text instead of 8 M and reaches 98.0% on the test set"
    )


@pytest.mark.parametrize(("flops", "chosen"), [(4e6, "cheap"), (4.1e6, "best"), (8e6, "best"), (9e6, "best")])
def test_a_tie_is_chosen_for_its_price_if_it_needs_at_most_half_of_it(flops: float, chosen: str) -> None:
    best, cheap = cost(flops=8e6), cost(flops=flops)
    systems = system("best", wrong(0), wrong(9), price=best), system("cheap", wrong(3), wrong(9), price=cheap)
    assert compared(*systems).chosen_system == chosen


@pytest.mark.parametrize(("flops", "chosen"), [(1e6, "cheap"), (0.99e6, "best"), (400, "best")])
def test_where_the_best_needs_next_to_no_time_it_is_chosen(flops: float, chosen: str) -> None:
    best, cheap = cost(flops=flops), cost(flops=flops / 3)
    systems = system("best", wrong(0), wrong(9), price=best), system("cheap", wrong(3), wrong(9), price=cheap)
    assert compared(*systems).chosen_system == chosen


def test_the_random_baseline_is_never_chosen_for_its_price() -> None:
    """It has no parameters. On a few rows it is tied with every system."""
    random = system("random", wrong(3), wrong(9), price=cost(parameters=0, flops=0))
    assert compared(system("best", wrong(0), wrong(9)), random).chosen_system == "best"
    assert compared(system("best", wrong(0), wrong(9)), random).cheapest_tied is None


def test_the_verdict_leaves_out_the_random_baseline_as_the_choice_does() -> None:
    random = system("random", wrong(3), wrong(9), price=cost(parameters=0, flops=0))
    best = system("best", wrong(0), wrong(9))
    two = compared(best, random)
    assert [row.outcome for row in two.rows] == ["chosen", "tie"]
    assert "random" not in two.verdict and "significantly better" not in two.verdict
    three = compared(best, random, system("close", wrong(1), wrong(9))).verdict
    assert "random" not in three and "separate it from close (99.0%), which is not cheaper." in three


def test_on_test_the_systems_are_compared_with_the_chosen_one() -> None:
    """By hand: the best on dev gets 40 test rows wrong, the chosen one 1 of these: McNemar gives 2·2⁻³⁹."""
    best = system("best", wrong(0), wrong(40), price=cost(flops=8e6))
    summary = compared(best, system("cheap", wrong(3), wrong(1), price=cost(flops=2e6)))
    rows = {row.system: row for row in summary.rows}
    assert (rows["cheap"].outcome, rows["cheap"].p_dev, rows["cheap"].p_test) == ("chosen", pytest.approx(0.25), None)
    assert (rows["best"].outcome, rows["best"].p_dev, rows["best"].test_outcome) == ("tie", None, "worse")
    assert rows["best"].p_test == pytest.approx(2 * 2**-39)


def test_the_verdict_says_by_how_much_the_best_score_is_too_high() -> None:
    """Each of two systems is wrong on one half of the rows, so on a resample one of them is ahead by chance."""
    halves = compared(system("left", [set(range(50))], wrong(9)), system("right", [set(range(50, 100))], wrong(9)))
    assert halves.optimism == pytest.approx(0.04, abs=0.005)  # E|X − 50| / 100 of a binomial X (100, ½): 3.98 points
    assert halves.verdict.endswith(
        f"As the best of 2 development scores, 50.0% is expected to be {100 * halves.optimism:.1f} points too high."
    )
    assert compared(system("only", wrong(2), wrong(9))).optimism == 0
    assert "expected" not in compared(system("only", wrong(2), wrong(9))).verdict
