"""From a corpus as it was read to three splits that hold together, and a report of all that was found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pithy.corpus import faults, notes
from pithy.corpus.checks import Verdict, absent_labels, judge
from pithy.corpus.keys import LOOSE, SPLITS, each_label, exact_text, label_column, loose_text
from pithy.corpus.leakage import in_train, leaks
from pithy.corpus.profile import profile
from pithy.corpus.schema import corpus_schema, row_faults
from pithy.corpus.splits import cap, cut
from pithy.corpus.token_labels import (
    INFERRED,
    labels_tokens,
    profile_token_labels,
    token_label_names,
    with_inferred_label,
)
from pithy.errors import DataError, ParameterError
from pithy.settings import Action, ValidateSettings

if TYPE_CHECKING:
    from pithy.corpus.source import Source

EXAMPLES = 10  # named in the report for each rule


@dataclass(frozen=True)
class Validated:
    """The three splits, their description for later stages, and the report."""

    parts: dict[str, pl.DataFrame]
    corpus: dict[str, Any]
    report: dict[str, Any]


def validate(frame: pl.DataFrame, source: Source, settings: ValidateSettings) -> Validated:
    """Judge `frame` (text, label or labels, split, file, line, …) by every rule and divide it into train, dev and test.

    A row that names no split counts as train; a missing text counts as an empty one. `row` numbers the rows as they
    were read, and they keep that order. Raises DataError with all faults at once, ParameterError for an impossible cut.
    """
    _refuse_unfit(frame, source)
    tokens_only = source.task == "tokens"
    numbered = with_inferred_label(_numbered(frame)) if tokens_only else _numbered(frame)
    declared = INFERRED if tokens_only else source.labels
    found = row_faults(numbered, corpus_schema(source.task, declared, tokens=labels_tokens(frame)))
    labels = list(declared) or _sorted_labels(numbered)
    actions: dict[str, Action] = {rule: getattr(settings, name) for rule, name in faults.SETTINGS.items()}
    verdict = judge(numbered, found, labels, settings.min_per_class, actions, inferred=tokens_only)
    divided, cuts = cut(verdict.kept, dev=settings.dev, test=settings.test, seed=settings.split_seed)
    parts, capped = _capped(_parts(divided), settings)
    pairs = leaks(_parts(numbered))
    token_labels = token_label_names(divided)
    said = [
        *notes.inferred(token_labels if tokens_only else []),
        *notes.merged(source.distinct),
        *notes.unassigned(frame["split"].null_count() % frame.height),
        *notes.judged(verdict, actions),
        *notes.leaked(pairs, settings.on_leak),
        *cuts,
        *capped,
        *notes.absent(absent_labels(parts, labels)),
    ]
    written = _written(parts)
    corpus = _description(source, labels, token_labels, written, said)
    found_in = {"rules": _rules(verdict, actions), "conflicts": _conflicts(numbered, verdict.faults)}
    leaking = {"leaks": {"found": pairs, "left": leaks(parts)}}
    numbers = profile(parts, labels, source.language) | {"token_classes": profile_token_labels(parts, token_labels)}
    return Validated(written, corpus, corpus | numbers | leaking | found_in)


def _refuse_unfit(frame: pl.DataFrame, source: Source) -> None:
    if source.task == "files":
        raise ParameterError(f"params.yaml: dataset was {source.name!r}: it labels no texts (task: {source.task})")
    if source.task == "tokens" and not {"tokens", "token_labels"} <= set(frame.columns):
        raise ParameterError(
            f"data/sources/{source.name}.yaml: task was 'tokens', and its reader gives no tokens with labels: name "
            "their columns (tokens, token_labels), give spans, or use conll or m2"
        )
    if frame.is_empty():
        files = ", ".join(file.path for file in source.files)
        raise DataError(f"{source.name} has no rows: there is nothing in {files}")


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    if frame.schema.get("text") == pl.String:
        frame = frame.with_columns(pl.col("text").fill_null("")).with_columns(loose_text().alias(LOOSE))
    split = pl.col("split").cast(pl.String).fill_null("train")
    return frame.with_columns(split, row=pl.int_range(pl.len(), dtype=pl.Int64))


def _sorted_labels(frame: pl.DataFrame) -> list[str]:
    """All labels in order, numbers by their value."""
    names = each_label(frame)["label"].drop_nulls().unique().to_list()
    return sorted(
        (name for name in names if name.strip()), key=lambda name: (int(name) if name.isdecimal() else -1, name)
    )


def _parts(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {split: frame.filter(pl.col("split") == split) for split in SPLITS}


def _capped(parts: dict[str, pl.DataFrame], settings: ValidateSettings) -> tuple[dict[str, pl.DataFrame], list[str]]:
    train, rows = parts["train"], settings.max_train_rows
    if rows is None or rows >= train.height:
        return parts, []
    sample = cap(train, rows, settings.split_seed)
    return parts | {"train": sample}, [notes.capped(rows, train.height, settings.split_seed)]


def _written(parts: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The columns that later stages read; dev and test say of each row whether train has its text."""
    columns = {name: part.drop("file", "line", "split", LOOSE) for name, part in parts.items()}
    return {
        name: part.select("row", pl.exclude("row")).with_columns(
            [] if name == "train" else in_train(part, parts["train"])
        )
        for name, part in columns.items()
    }


def _description(
    source: Source,
    labels: list[str],
    token_labels: list[str],
    written: Mapping[str, pl.DataFrame],
    said: list[str],
) -> dict[str, Any]:
    return {
        "name": source.name,
        "language": source.language,
        "task": "multi" if source.task == "multi" else "single",
        "labels": labels,
        "token_labels": token_labels,
        "tokens_only": source.task == "tokens",
        "rows": {name: part.height for name, part in written.items()},
        "notes": said,
        "dev_in_train": int(written["dev"]["in_train"].sum()),
        "test_in_train": int(written["test"]["in_train"].sum()),
    }


def _rules(verdict: Verdict, actions: Mapping[str, Action]) -> list[dict[str, Any]]:
    """Every rule that a setting rules: rows that broke it, rows dropped, the first examples."""
    found = faults.counts(verdict.faults)
    return [
        {
            "rule": rule,
            "setting": faults.SETTINGS[rule],
            "action": action,
            "rows": found.get(rule, 0),
            "dropped": verdict.dropped.get(rule, 0),
            "examples": verdict.faults.filter(pl.col("rule") == rule).drop("rule").head(EXAMPLES).to_dicts(),
        }
        for rule, action in actions.items()
    ]


def _conflicts(frame: pl.DataFrame, found: pl.DataFrame) -> dict[str, Any]:
    """Texts with two labels in one split: how many a split, and the first of them with their labels and places."""
    torn = found.filter(pl.col("rule") == faults.CONFLICT)["row"]
    rows = frame.filter(pl.col("row").is_in(torn.implode())).with_columns(exact=exact_text())
    texts = rows.group_by("split", "exact", maintain_order=True).agg(
        pl.col(label_column(frame)).alias("labels"), places=pl.format("{}:{}", "file", "line")
    )
    return {
        "texts": dict(texts.group_by("split", maintain_order=True).len().iter_rows()),
        "examples": texts.head(EXAMPLES)
        .with_columns(text=pl.col("exact").str.slice(0, faults.WIDTH))
        .drop("exact")
        .to_dicts(),
    }
