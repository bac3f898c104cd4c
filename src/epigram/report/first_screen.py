"""First screen of a report, in plain words: how good the chosen system is, where it fails, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epigram.core.limits import list_names
from epigram.evaluation.comparison.formats import ends_of, join_names, level, percent, score_text
from epigram.evaluation.metrics.primary import in_percent, title_of
from epigram.evaluation.metrics.slices import NOT_IN_TRAIN
from epigram.evaluation.quality.data_quality import DataQuality, outlook
from epigram.evaluation.records.results import ClassScores, Metrics
from epigram.evaluation.records.summary import Row, Summary, choosing_rows
from epigram.report.classes import confused_pairs

WIDE = 0.1  # an interval that is wider needs more test texts
WEAK = 0.05  # a label whose F1 is so much below the mean is named, and needs more texts
MAX_NAMED = 6  # maximum number of systems, or of labels, that are listed by name
LONG = 0.05  # share of truncated test texts from which there is a warning
LEAKED = 0.01  # share of a split's texts in train from which there is a warning
NOISY = 0.03  # share of wrong training labels likewise


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Findings about the data: number of suspected labels, an upper estimate of how many are wrong, labels that were
    judged, what more labels would do, the `leaks` of report.json that validation left, and a first step to do next.

    There are no suspects if the predictions are too weak to judge labels.
    """

    suspects: int = 0
    expected_wrong: float = 0.0
    judged: int = 0
    outlook: str = ""
    leaks: Sequence[Mapping[str, Any]] = field(default_factory=list)
    advice: str = ""

    @classmethod
    def of(cls, quality: DataQuality, leaks: Sequence[Mapping[str, Any]], advice: str) -> Findings:
        """Return the findings of the stages `examine` and `validate`, with `advice`."""
        said = outlook(quality.curve) if quality.curve else ""
        found, wrong = (len(quality.suspects), quality.expected_wrong) if quality.can_judge else (0, 0.0)
        return cls(
            suspects=found, expected_wrong=wrong, judged=quality.judged, outlook=said, leaks=leaks, advice=advice
        )


@dataclass(frozen=True)
class FirstScreen:
    """Sentences about the chosen system; each of `certainty` is a paragraph. `warnings` can change a decision."""

    certainty: list[str]
    warnings: list[str]
    failures: list[str]
    steps: list[str]


def first_screen(summary: Summary, metrics: Metrics, findings: Findings) -> FirstScreen:
    """Return the sentences about the chosen system, whose `metrics` are given."""
    row, weakest = summary.chosen, weakest_label(summary, metrics)
    weak = weakest is not None and weakest.f1 < row.macro_f1 - WEAK
    failures = [_weakest_sentence(weakest, summary)] if weakest and weak else []
    certainty = [" ".join(_reached(summary, row, metrics)), _separation(summary)]
    warnings = [*_leaks(metrics, findings), *_uncertain(summary, row, metrics), _noise(findings)]
    steps = _steps(findings, weakest if weak else None)
    parts = (certainty, warnings, [*failures, *_confusion(metrics), _worst_slice(metrics)], steps)
    return FirstScreen(*([sentence for sentence in each if sentence] for each in parts))


def _reached(summary: Summary, row: Row, metrics: Metrics) -> list[str]:
    """Return the expected score on new texts with its range, and the score of a constant answer."""
    sure = level(summary.confidence)
    right = "the label that the machine would give" if summary.agreement else "the right label"
    ends = [f"{100 * end:.0f}" for end in (row.test_low, row.test_high)]
    if summary.score == "accuracy":
        said = (
            f"About {100 * row.test_score:.0f} of 100 new texts like these get {right}, very likely between "
            f"{ends[0]} and {ends[1]} of 100 ({sure} interval)."
        )
    else:
        value = score_text(summary.score, row.test_score, "%")
        between = " and ".join(ends_of(summary.score, row.test_low, row.test_high))
        score = title_of(summary.score)
        said = (
            f"On new texts like these, its {score} is about {value}, very likely between {between} ({sure} interval)."
        )
    sentences = [summary.agreement, said] if summary.agreement else [said]
    if summary.score == "accuracy":
        most = max(metrics.classes, key=lambda each: each.support)
        share = most.support / sum(each.support for each in metrics.classes)
        sentences.append(f"The same answer “{most.label}” for every text would be right for {100 * share:.0f} of 100.")
    return sentences


def _leaks(metrics: Metrics, findings: Findings) -> list[str]:
    """Return a warning for each pair of splits with many common texts; for test, with the score without them."""
    rest = next((part for part in metrics.slices if part.name == NOT_IN_TRAIN), None)
    without = ""
    if rest:
        ends = " to ".join(ends_of(metrics.score, rest.score.low, rest.score.high))
        value = f"{title_of(metrics.score)} is {score_text(metrics.score, rest.score.value)} ({ends})"
        without = f" On the test texts that are not exactly in train, the {value}."
    return [
        f"{leak['normalised']:,} of {leak['rows']:,} {leak['rows_of']} texts are also in {leak['also_in']}, "
        f"{leak['exact']:,} of them exactly and the rest but for case, width or punctuation: the scores are too good "
        f"for new texts.{without if (leak['rows_of'], leak['also_in']) == ('test', 'train') else ''}"
        for leak in findings.leaks
        if leak["normalised"] >= max(1, LEAKED * leak["rows"])
    ]


def _uncertain(summary: Summary, row: Row, metrics: Metrics) -> list[str]:
    """Return warnings about a wide range, about long texts, and about labels that no test text has."""
    texts, warnings = summary.splits["test"] or summary.splits["train"], list[str]()
    if row.test_high - row.test_low > WIDE and in_percent(summary.score):
        warnings.append(f"The range is wide because only {texts:,} texts test it; {4 * texts:,} would halve it.")
    if metrics.truncated >= LONG * texts:
        warnings.append(
            f"{metrics.truncated:,} of {texts:,} test texts are longer than the {metrics.room:,} tokens that the model "
            "reads from the beginning of a text (train.max_length)."
        )
    if absent := [each.label for each in metrics.classes if not each.support]:
        names = list_names((f"“{label}”" for label in absent), MAX_NAMED)
        warnings.append(f"No test text has the label {names}: whether it is found is unknown.")
    return warnings


def _noise(findings: Findings) -> str:
    """Return a warning if many training labels are wrong."""
    share = findings.expected_wrong / max(1, findings.judged)
    if share < NOISY:
        return ""
    return (
        f"Up to about {100 * share:.0f} of 100 training labels are wrong (section Data quality). If the test labels "
        "are like them, the scores are off by as much."
    )


def _separation(summary: Summary) -> str:
    """Return which systems the development texts cannot separate, and how many systems are worse.

    The random baseline, the only system without parameters, is left out.
    """
    ranked = [row for row in summary.rows if row.outcome != "unranked" and row.parameters_pruned]
    close = [row for row in ranked if row.outcome != "worse"]
    worse, chosen = len(ranked) - len(close), f"It was chosen by {_choosing(summary)}, which"
    if len(ranked) < 2:
        return ""
    others = f"the other {f'{worse} systems' if worse > 1 else 'system'}"
    if len(close) == 1:
        return f"{chosen} show that it is better than {others}."
    scores = [f"{row.system} ({score_text(summary.score, row.dev_score, '%')})" for row in close]
    named = join_names(scores) if len(close) <= MAX_NAMED else f"the best {len(close)} systems"
    least = min(row.flops for row in close)
    cheapest = [row.system for row in close if row.flops == least] == [summary.chosen_system]
    best = summary.chosen.dev_score == max(row.dev_score for row in close)  # a loss is stored as a negative score
    better = " No other one scores better there." if best else ""
    why = f" {summary.chosen_system} is the cheapest of them." if cheapest else better
    rest = f" {others[:1].upper()}{others[1:]} {'are' if worse > 1 else 'is'} worse." if worse else ""
    return f"{chosen} cannot separate {named}: the difference may be chance.{why}{rest}"


def _choosing(summary: Summary) -> str:
    """Return the texts that choose the system: their scores differ from test scores."""
    texts = choosing_rows(summary.splits)
    if summary.splits["dev"]:
        return f"{texts:,} other texts (dev)"
    return f"a cross-validation of the {texts:,} training texts"


def weakest_label(summary: Summary, metrics: Metrics) -> ClassScores | None:
    """Return the label with the lowest F1 among the labels of test rows, or of words if these rank the systems."""
    words = summary.score == "token_f1" and metrics.tokens is not None
    classes = metrics.tokens.classes if words and metrics.tokens else metrics.classes
    known = [each for each in classes if each.support]
    return min(known, key=lambda each: each.f1) if len(known) > 1 else None


def _weakest_sentence(each: ClassScores, summary: Summary) -> str:
    what = "words" if summary.score == "token_f1" else "texts"
    return (
        f"“{each.label}” is the weakest label: {percent(each.recall)}% of its {each.support:,} "
        f"test {what} are found, and {percent(each.precision)}% of the {what} that get this label are right."
    )


def _confusion(metrics: Metrics) -> list[str]:
    """Return the most frequent confusion of two labels; none for several labels a text."""
    pairs = confused_pairs(metrics.labels, metrics.confusion) if metrics.confusion else []
    if not pairs:
        return []
    pair, seeds = pairs[0], len(metrics.seeds)
    gold = seeds * next(each.support for each in metrics.classes if each.label == pair.gold)
    together = f" ({seeds} seeds together)" if seeds > 1 else ""
    return [
        f"The most frequent error: {pair.rows:,} of {gold:,} “{pair.gold}” texts get the label "
        f"“{pair.predicted}”{together}."
    ]


def _worst_slice(metrics: Metrics) -> str:
    """Return the value of a kept column with the lowest score, if its interval is below the score of all texts."""
    every = metrics.test_score.value
    below = [part for part in metrics.slices if part.kind == "column" and part.score.high < every]
    if not below:
        return ""
    worst = min(below, key=lambda part: part.score.value)
    ends = " to ".join(ends_of(metrics.score, worst.score.low, worst.score.high))
    return (
        f"By {worst.column}, “{worst.name}” is worst: on its {worst.rows:,} test texts, {title_of(metrics.score)} is "
        f"{score_text(metrics.score, worst.score.value, '%')} ({level(metrics.confidence)} range {ends}), on all "
        f"{score_text(metrics.score, every, '%')}."
    )


def _steps(found: Findings, weak: ClassScores | None) -> list[str]:
    """Return what improves the model: the advice, the labels to check, and the labels to add."""
    check = (
        f"Review the {found.suspects:,} suspected labels (section Data quality): up to about "
        f"{found.expected_wrong:,.0f} of them are wrong. Correct these and train again."
    )
    more = f"If you label more texts, begin with texts of “{weak.label}”." if weak else ""
    advice, outlook = (f"{said}." if said else "" for said in (found.advice, found.outlook))
    return [advice, check if found.suspects else "", outlook, more]
