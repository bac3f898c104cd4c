"""The verdict of a comparison in words: which system to use, why, and what is tied with it."""

from __future__ import annotations

from collections.abc import Sequence

from epigram.evaluation.comparison.choose_system import Ranking
from epigram.evaluation.comparison.formats import abbreviate, ends_of, join_names, level, points, score_text
from epigram.evaluation.metrics.primary import is_loss, title_of
from epigram.evaluation.records.results import Metrics
from epigram.evaluation.records.summary import Row
from epigram.evaluation.settings import Preference

VISIBLE = 0.0005  # a smaller optimism is printed as 0.0 points
MAX_NAMED = 6  # maximum number of ties that the verdict lists by name


def describe(
    rows: Sequence[Row],
    decision: Ranking,
    seed: int,
    best: Metrics,
    prefer: Preference,
    texts: int,
    optimism: float,
    of_choice: float | None = None,
) -> str:
    """Return the verdict; `rows` begin with the best system, `best`, and `decision` chooses one as `prefer` says.

    `texts` is the number of development texts.

    Without a test set, the chosen system's score is out of fold, less the optimism `of_choice`.
    """
    metric, chosen = best.score, rows[decision.place]
    ahead = any(rows[n].dev_score > rows[0].dev_score for n in decision.refused)
    choice = _best(chosen, seed, metric, ahead)
    if decision.place:
        choice = _tied(chosen, rows[0], seed, metric, _reason(chosen, rows[0], decision, prefer), texts)
    where = "on the test set"
    if of_choice is not None:
        less = f", {'plus' if is_loss(metric) else 'less'} the expected optimism of the choice, "
        where = f"out of fold{less + points(metric, of_choice) if len(rows) > 1 else ''}"
    reached = (
        f"and reaches {score_text(metric, chosen.test_score, '%')} {where} ({level(best.confidence)} interval "
        f"{' to '.join(ends_of(metric, chosen.test_low, chosen.test_high))})."
    )
    why_not, others = _refused(rows, decision, metric), _others(rows, decision, metric, texts)
    too_good = _optimism(rows[0], len(rows) - len(decision.refused), optimism, metric)
    found = choice, reached, why_not, others, too_good
    return " ".join(part for part in found if part)


def _best(chosen: Row, seed: int, metric: str, ensemble_ahead: bool) -> str:
    seeds = len(chosen.seeds)
    averaged = f"averaged over {seeds} seeds, " if seeds > 1 else ""
    of = " of a single system" if ensemble_ahead else ""
    return (
        f"Use {chosen.system} (seed {seed}): {averaged}it has the best development {title_of(metric)}{of}, "
        f"{score_text(metric, chosen.dev_score, '%')},"
    )


def _reason(chosen: Row, best: Row, decision: Ranking, prefer: Preference) -> str:
    """Return why a system is chosen that is tied with the best one."""
    if prefer != "best":
        return f"It needs {abbreviate(chosen.flops)} FLOPs per text instead of {abbreviate(best.flops)}"
    if 0 in decision.outdone:
        return "On other data with as many texts it is the better one,"
    return f"It has the lowest development log loss, {chosen.dev_loss:.4g} instead of {best.dev_loss:.4g},"


def _tied(chosen: Row, best: Row, seed: int, metric: str, why: str, texts: int) -> str:
    own, other = (score_text(metric, row.dev_score, "%") for row in (chosen, best))
    return (
        f"Use {chosen.system} (seed {seed}): {texts:,} development texts cannot separate its {title_of(metric)}, "
        f"{own}, from the best, {other} of {best.system}. {why}"
    )


def _refused(rows: Sequence[Row], decision: Ranking, metric: str) -> str:
    """Return why an ensemble that is tied with the best system is not chosen; nothing for one that is worse."""
    tied = [rows[n] for n in decision.refused if n in decision.tied]
    if not tied:
        return ""
    ensemble, best = (score_text(metric, row.dev_score, "%") for row in (tied[0], rows[0]))
    return (
        f"The ensemble is not chosen: its development {title_of(metric)}, {ensemble}, is not "
        f"{'below' if is_loss(metric) else 'above'} {best} of {rows[0].system} by more than the standard error of the "
        f"difference, {points(metric, decision.error)}."
    )


def _others(rows: Sequence[Row], decision: Ranking, metric: str, texts: int) -> str:
    """Return a sentence about the other systems that are tied with the best and can be chosen."""
    chosen, tied = rows[decision.place], [rows[n] for n in decision.possible if n != decision.place]
    if not tied:
        ahead = len(rows) > 1 and all(row.outcome != "tie" for row in rows)
        return "It is significantly better than every other system on the development set." if ahead else ""
    best, of, than = "it", "", ""
    if decision.place:  # the ties are with the best, which is not the chosen one
        best, of, than = rows[0].system, f" of {chosen.system}", f" than {chosen.system}"
    few, others = len(tied) <= MAX_NAMED, len(rows) - len({0, decision.place})
    scored = [f"{row.system} ({score_text(metric, row.dev_score, '%')})" for row in tied]
    names = join_names(scored) if few else f"{len(tied)} of the {others} others"
    tie = f"{texts:,} development texts cannot separate {best} from {names}"
    cheapest = min(tied, key=lambda row: (row.flops, row.parameters_pruned))
    if cheapest.flops >= chosen.flops:
        return f"{tie}, which {'is' if len(tied) == 1 else 'are'} not cheaper{than}."
    cost = f"{abbreviate(cheapest.flops)} FLOPs per text instead of {abbreviate(chosen.flops)}{of}"
    return (
        f"{tie}, which needs {cost}." if len(tied) == 1 else f"{tie}; {cheapest.system} is the cheapest, with {cost}."
    )


def _optimism(row: Row, scores: int, optimism: float, metric: str) -> str:
    """Return by how much the best of the development scores is expected to be too good; nothing for a single one."""
    if scores == 1 or abs(optimism) < VISIBLE:
        return ""
    best = f"As the best of {scores} development scores, {score_text(metric, row.dev_score, '%')}"
    return f"{best} is expected to be {points(metric, optimism)} too {'low' if is_loss(metric) else 'high'}."
