"""Withdrawal of an accepted file's rows from a growing data set, and the models that learned from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.config_types import nearest, shown
from epigram.core.errors import EpigramError, InputMissingError, ParameterError
from epigram.core.files import read_json, sha256
from epigram.runner.champions import champion
from epigram.runner.retraining import inbox
from epigram.runner.retraining.ledger import AcceptedBatch, Ledger
from epigram.runner.retraining.live_data import LiveData

if TYPE_CHECKING:
    import polars as pl

MIN_DIGITS = 8  # digits of a SHA-256 that are enough to name a file


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """Result of a withdrawal.

    `rows` counts the withdrawn rows; `kept` counts texts that stay because the base or another file has them, too.
    `models` are the champions and runs that learned from the rows, `copies` places that still have the rows.
    """

    dataset: str
    file: str
    rows: int
    kept: int
    models: tuple[str, ...]
    copies: tuple[str, ...]

    def __str__(self) -> str:
        kept = f"; {self.kept:,} of its texts stay, because the base or another file has them, too" if self.kept else ""
        models = "".join(f"\nlearned from them: {model}" for model in self.models) or "\nno model learned from them"
        copies = "".join(f"\nstill has them: {copy}" for copy in self.copies)
        return f"withdrew {self.rows:,} rows of {self.file} from {self.dataset}{kept}{models}{copies}"


def withdraw(live: LiveData, file: str) -> Withdrawal:
    """Remove the rows of an accepted file from the data set and from the store.

    `file` is its name in the folder taken/ or in the ledger, or the beginning of its SHA-256. Raises ParameterError
    if it is unknown, or if several files have the name.
    """
    live.finish()
    taken = inbox.files_in(inbox.inbox_folder(live.root, live.settings.retrain.incoming) / inbox.ARCHIVE)
    batches = _find(live.record, file, taken)
    since = min(map(live.record.accepted, batches))
    remaining = [batch for batch in live.record.batches if batch not in batches]
    base, fields = live.find_base()
    frame = live.replay(base, remaining)
    live.describe(frame, fields.get("labels", live.record.base.labels))
    rows, kept = _count(live, batches, frame)
    live.commit(frame, kind="forget", batches=batches, **fields)
    models = learned_models(live.root, live.name, since)
    return Withdrawal(
        dataset=live.name,
        file=", ".join(dict.fromkeys(shown(batch.name) for batch in batches)),
        rows=rows,
        kept=kept,
        models=models,
        copies=tuple(_copies(batches, taken, models)),
    )


def learned_models(root: Path, dataset: str, since: str) -> tuple[str, ...]:
    """Return the champions and runs of a data set that were trained at the time `since` or later."""
    history = champion.history(root)
    promoted = {each.number: each.since for each in history}
    champions = {
        each.run: f"champion {each.number} (runs/{each.run})"
        for each in history
        if each.dataset == dataset and promoted.get(each.restores or each.number, each.since) >= since
    }
    runs = []
    for summary in sorted((root / "runs").glob("*/summary.json")):
        run, is_later = summary.parent, summary.stat().st_mtime >= datetime.fromisoformat(since).timestamp()
        has_model = (run / "model").is_dir() and not run.is_symlink() and run.name not in champions
        if is_later and has_model and _dataset_of(summary) == dataset:
            runs.append(f"runs/{run.name}")
    return (*champions.values(), *runs)


def _dataset_of(summary: Path) -> str | None:
    with suppress(EpigramError):
        values = read_json(summary)
        return values.get("dataset") if isinstance(values, dict) else None
    return None


def _find(record: Ledger, file: str, taken: Sequence[Path]) -> list[AcceptedBatch]:
    name = Path(file).name
    in_taken = {sha256(path) for path in taken if path.name == name}
    found = [
        each
        for each in record.batches
        if each.name == name or each.sha256 in in_taken or (len(name) >= MIN_DIGITS and each.sha256.startswith(name))
    ]
    if not found:
        earlier = "; it was accepted before the ledger began, so its rows are part of the base" if in_taken else ""
        raise ParameterError(
            f"--forget {shown(file)}: no accepted file has this name or SHA-256{earlier}; "
            f"{nearest(name, [each.name for each in record.batches])}"
        )
    if len({each.sha256 for each in found}) > 1:
        each_file = "".join(f"\n{each.sha256}: {each.rows:,} rows, {record.accepted(each)}" for each in found)
        raise ParameterError(f"--forget {shown(file)}: several files have this name; give the SHA-256{each_file}")
    return found


def _count(live: LiveData, batches: Sequence[AcceptedBatch], frame: pl.DataFrame) -> tuple[int, int]:
    """Return how many of the batches' texts are not in `frame`, and how many are."""
    import polars as pl

    from epigram.data.growing_dataset import drop_known, unknown_rows

    try:
        rows = pl.concat(map(live.rows_of, batches), how="diagonal_relaxed")
    except InputMissingError:  # the store has lost them
        return sum(batch.rows for batch in batches), 0
    return int(unknown_rows(frame, rows).sum()), rows.height - drop_known(frame, rows).height


def _copies(batches: Sequence[AcceptedBatch], taken: Sequence[Path], models: Sequence[str]) -> Iterator[str]:
    """Yield the places that still have the rows of withdrawn batches."""
    digests = {batch.sha256 for batch in batches}
    yield from (f"{path}; delete it" for path in taken if sha256(path) in digests)
    if any(batch.is_queried for batch in batches):
        yield "the database; delete the rows there, otherwise the next retraining adds them again"
    if models:
        yield "DVC's cache and .epigram/workspaces, as the data of these models"
