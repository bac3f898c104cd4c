"""Growing data set of a project: its file, checked against its ledger, and the store that it can be rebuilt from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from epigram.core.config_types import check_name, read_yaml
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import atomic_file, sha256, write_text
from epigram.data.sources.source import GROWING_SUFFIX, SOURCES, Source, load_source
from epigram.models.manifest import parameters_hash
from epigram.runner.champions.champion import now
from epigram.runner.retraining import inbox, ledger
from epigram.runner.retraining.ledger import AcceptedBatch, Entry, Ledger
from epigram.runner.retraining.row_store import RowStore
from epigram.runner.workspace.settings import Settings

if TYPE_CHECKING:
    import polars as pl

HEAD = "# Written by the first retraining; data/sources/local.yaml explains every line. New labels are added here.\n"


def grown_name(dataset: str) -> str:
    """Return the name of the growing data set of `dataset`. Raises ParameterError if `dataset` is no valid name."""
    check_name("dataset", dataset)
    return f"{dataset.removesuffix(GROWING_SUFFIX)}{GROWING_SUFFIX}"


def row_source(root: Path, name: str, encoding: str | None = None) -> Source:
    """Return the source of new rows for the data set `name`: the base's columns, and all labels known so far.

    The files of new rows have the `encoding`, or if it is None, any.
    """
    folder = root / SOURCES
    base = load_source(name.removesuffix(GROWING_SUFFIX), folder)
    known = {} if encoding is None else {"encoding": encoding}
    read = {key: value for key, value in base.read.items() if key != "encoding"} | known
    labels = load_source(name, folder).labels if (folder / f"{name}.yaml").exists() else []  # empty: any label
    return replace(base, read=read, labels=labels)


class LiveData:
    """Growing data set `name`. Its ledger is None before the first retraining."""

    def __init__(self, root: Path, name: str, settings: Settings) -> None:
        self.root, self.name, self.settings = root, name, settings
        self.rows, self.description = root / "data" / "local" / f"{name}.parquet", root / SOURCES / f"{name}.yaml"
        self.base = load_source(name.removesuffix(GROWING_SUFFIX), root / SOURCES)
        self.pending = root / ".epigram" / f"{name}.parquet"  # next content of the file
        self.ledger: Ledger | None = ledger.read(root, name)
        self.store = RowStore(root, name)

    @property
    def record(self) -> Ledger:
        """The ledger. Raises InputMissingError before the first retraining."""
        if self.ledger is None:
            raise InputMissingError(f"{self.name} has no ledger yet; the next epigram retrain begins one")
        return self.ledger

    def prepare(self) -> str:
        """Create the data set, or check it, and return a note for the user.

        Raises DataError or InputMissingError if its file differs from what the last retraining left.
        """
        note = self._begin() if self.ledger is None else ""
        self.finish()
        self.check()
        if not self.description.exists():
            self.describe(self.read(), self.record.base.labels)
        return note

    def check(self) -> None:
        """Raise DataError if the file or its base differs from the ledger, InputMissingError if the file is missing."""
        rebuild = (
            f"epigram retrain --rebuild{f' --dataset {self.base.name}' * (self.base.name != self.settings.dataset)}"
        )
        if not self.rows.exists():
            raise InputMissingError(f"{self.rows} is missing; to restore it with all rows: {rebuild}")
        if sha256(self.rows) != self.record.after:
            fault = "is older than the last retraining, edited or damaged"
            raise DataError(f"{self.rows} {fault}; to restore it with all rows: {rebuild}")
        if self._base_has_changed():
            raise DataError(
                f"{self.base.name} is not the data set with which {self.name} began; to put its present rows in place "
                f"of the first ones, and keep all rows that arrived since: {rebuild}"
            )

    def read(self) -> pl.DataFrame:
        """Return the rows. Raises DataError if the file cannot be read."""
        import polars as pl

        from epigram.text.dataset.validated_corpus import READ_ERRORS

        try:
            return pl.read_parquet(self.rows, glob=False)
        except READ_ERRORS:
            raise DataError(f"{self.rows} is not a readable parquet file; restore it from a copy") from None

    def commit(self, frame: pl.DataFrame | None, **fields: Any) -> None:
        """Add an entry to the ledger and replace the file by `frame`; if None, the file stays as it is.

        The entry is added first. If the process ends in between, the next `finish` replaces the file. Raises
        TryAgainError, with nothing changed, if another process has added an entry.
        """
        before = self.ledger.after if self.ledger else None
        if frame is None:
            after = before or sha256(self.rows)
        else:
            with atomic_file(self.pending) as temporary:
                frame.rechunk().write_parquet(temporary)
            after = sha256(self.pending)
        if after != before or len(fields) > 1:
            entry = Entry(before=before, after=after, time=now(), **fields)
            self.ledger = ledger.append(self.root, self.name, self.ledger, entry)
        self.finish()

    def keep(self, frame: pl.DataFrame) -> str:
        """Store rows as a parquet file and return its SHA-256."""
        with TemporaryDirectory() as folder:
            frame.rechunk().write_parquet(file := Path(folder) / "rows.parquet")
            return self.store.keep(file)

    def rebuild(self) -> str:
        """Restore the file from the base and all batches, and return a report.

        The base is read again if it has changed since, or if the store has lost it.
        """
        base, fields = self._new_base() if self._base_has_changed() else self.find_base()
        frame = self.replay(base, self.record.batches)
        self.describe(frame, fields.get("labels", self.record.base.labels))
        self.commit(frame, kind="rebuild", **fields)
        arrived = frame.height - base.height
        return f"restored {self.name}: {base.height:,} rows of {self.base.name} and {arrived:,} that arrived since"

    def replay(self, frame: pl.DataFrame, batches: Sequence[AcceptedBatch]) -> pl.DataFrame:
        """Return `frame` with the rows of the batches. Raises InputMissingError if they are lost."""
        import polars as pl

        from epigram.data.growing_dataset import append_rows
        from epigram.text.dataset.text_matching import label_column

        for number, group in groupby(batches, key=lambda batch: batch.number):
            new = pl.concat(list(map(self.rows_of, group)), how="diagonal_relaxed")
            if label_column(frame.columns) not in new.columns:
                raise DataError(f"{self.base.name} has another kind of labels than the rows that arrived since")
            frame = append_rows(frame, new, self.settings.validate.dev, number)
        return frame

    def rows_of(self, batch: AcceptedBatch) -> pl.DataFrame:
        """Return the rows of a batch, from the store or else from the file as it arrived."""
        import polars as pl

        from epigram.data.incoming_rows import read_rows

        original, rows = batch.kept
        if stored := self.store.find(rows):
            return pl.read_parquet(stored)
        source = row_source(self.root, self.name, self.settings.retrain.encoding)
        taken = inbox.inbox_folder(self.root, self.settings.retrain.incoming) / inbox.ARCHIVE
        for file in (self.store.find(original), *inbox.files_in(taken)):
            if file and sha256(file) == batch.sha256:
                found = read_rows([file], source, self.settings.validate).frame
                if found is not None:
                    return found
        raise InputMissingError(
            f"{self.store.folder} lacks {rows}, the rows of {batch.name}; copy it there, or {original} to {taken}, or "
            f"give the rows up: epigram retrain --forget {batch.sha256}"
        )

    def find_base(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """Return the rows of the base, and the fields of an entry about them if they had to be read again.

        Raises InputMissingError if the store has lost rows that arrived before the ledger began.
        """
        import polars as pl

        name, number = f"{self.record.base.base}.parquet", self.record.base.number
        if stored := self.store.find(name):
            return pl.read_parquet(stored), {}
        if number:
            raise InputMissingError(f"{self.store.folder} lacks {name}, the first rows of {self.name}; copy it there")
        return self._new_base()

    def _begin(self) -> str:
        """Begin the ledger, and return a note on the rows that it begins with."""
        from epigram.data.growing_dataset import count_splits

        rows, description, is_older = self.rows, self.description, self.rows.exists()
        if is_older and not description.exists():
            raise DataError(f"{rows} has neither a ledger nor {description.name}; move it away to begin it again")
        if description.exists() and not is_older:
            raise InputMissingError(
                f"{rows} is missing, but {description.name} describes it; restore it from a copy or from the champion "
                f"(dvc get . data/raw/{rows.name} --rev champion -o {rows.parent}), and move all files of "
                f"{inbox.ARCHIVE} back to the inbox: rows that are known are skipped"
            )
        older = (self.read(), load_source(self.name, self.root / SOURCES).labels) if is_older else None
        frame, labels = older or self._read_base()
        self.commit(None if is_older else frame, kind="start", **self._base_fields(frame, labels))
        if is_older:
            return f"the ledger of {self.name} begins with its {frame.height:,} rows"
        return f"{self.name} begins with the {frame.height:,} rows of {self.base.name}: {count_splits(frame)}"

    def finish(self) -> None:
        """Replace and delete files as the ledger says, also if a process ended after its entry in the ledger."""
        self.store.remove(self.record.withdrawn)
        if self.pending.exists():
            if sha256(self.pending) == self.record.after:
                with atomic_file(self.rows) as temporary:
                    shutil.copyfile(self.pending, temporary)
            self.pending.unlink()

    def _base_has_changed(self) -> bool:
        return self._source_hash() not in {self.record.base.source, None}

    def _source_hash(self) -> str | None:
        """Return the SHA-256 of everything that determines the base's rows; None if a file of the base is missing."""
        base = self.base
        with suppress(FileNotFoundError):
            files = [
                each.sha256 or (sha256(self.root / each.local) if each.local else [each.addresses, each.query])
                for each in base.files
            ]
            reads = [base.read, *(each.read for each in base.files)]
            drawn = {"sample": vars(base.sample)} if base.sample else {}
            return parameters_hash(
                files=files, reads=reads, splits=base.splits, task=base.task, distinct=base.distinct, **drawn
            )
        return None

    def _new_base(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """Return the base's present rows, and the fields of an entry about them.

        Rows that arrived before the ledger began are in the old base, and become part of the new one.
        """
        import polars as pl

        from epigram.data.growing_dataset import append_rows

        frame, labels = self._read_base()
        if self.record.base.number:
            before, _ = self.find_base()
            for number in range(1, self.record.base.number + 1):
                rows = before.filter(pl.col("batch") == number)
                frame = append_rows(frame, rows, self.settings.validate.dev, number)
        return frame, self._base_fields(frame, labels)

    def _base_fields(self, frame: pl.DataFrame, labels: list[str]) -> dict[str, Any]:
        number = max(frame["batch"])
        return {"base": self.keep(frame), "source": self._source_hash() or "", "labels": labels, "number": number}

    def describe(self, frame: pl.DataFrame, known: Sequence[str] | None) -> None:
        """Write the description, if it lacks columns of the base or has other labels than `known` and `frame` have."""
        import yaml

        from epigram.data.growing_dataset import describe
        from epigram.text.dataset.text_matching import explode_labels

        found = read_yaml(self.description) if self.description.exists() else None
        own = found if isinstance(found, dict) else {}  # it may be damaged
        used = explode_labels(frame)["label"].unique(maintain_order=True)
        described = [label for label in map(str, own.get("labels", used)) if label in used]
        labels = list(dict.fromkeys([*(known or ()), *described]))
        named = {**(own.get("label_names") or {}), **self.base.label_names}  # names of later labels are the user's
        base = replace(self.base, label_names={label: named[label] for label in labels if label in named})
        if (values := {**own, **describe(base, labels, self.name)}) != own:
            write_text(self.description, HEAD + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=118))

    def _read_base(self) -> tuple[pl.DataFrame, list[str]]:
        """Download and validate the base as the pipeline does, but with all its training rows; also its labels."""
        from epigram.data.corpus import spool_corpus
        from epigram.data.growing_dataset import base_rows
        from epigram.data.sources.fetch import Fetcher
        from epigram.data.validation.validate import validate

        base, name = self.base, self.base.name
        if base.task not in {"single", "multi"}:
            raise DataError(
                f"{name} does not label texts (task: {base.task}); retraining requires task single or multi"
            )
        (self.root / ".epigram").mkdir(exist_ok=True)
        fetcher = Fetcher(self.root / ".epigram" / "downloads", self.settings.download, counted=base.counted)
        with TemporaryDirectory(dir=self.root / ".epigram") as folder:
            scratch = Path(folder)
            for file in base.files:
                fetcher.fetch(replace(file, local=file.local and str(self.root / file.local)), scratch)
            (scratch / "spool").mkdir()
            with_dev = replace(base, folds=0)  # new rows are added to dev
            all_rows = replace(self.settings.validate, max_train_rows=None)  # the pipeline limits the rows of each run
            validated = validate(spool_corpus(base, scratch, scratch / "spool"), with_dev, all_rows)
            fetcher.clear()
            return base_rows(validated, base.keep), validated.corpus.labels
