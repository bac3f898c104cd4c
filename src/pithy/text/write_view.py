"""Writes an encoded view: flat arrays of every split, streamed, and view.json."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pithy.errors import DataError
from pithy.files import write_json
from pithy.settings import View
from pithy.text.arrays import NpyWriter
from pithy.text.encoding import TextEncoder
from pithy.text.pos_table import PosTable, weights_for
from pithy.text.rows import SPLITS, Corpus
from pithy.text.tokenizers import special_ids, vocabulary_of
from pithy.text.vocabulary import Reading


@dataclass
class Tally:
    """What was met while a split was written."""

    tokens: int = 0
    unknown: int = 0
    truncated: int = 0

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that the vocabulary lacks."""
        return self.unknown / max(self.tokens, 1)


Tallies = dict[str, Tally]


def write_split(encoder: TextEncoder, corpus: Corpus, split: str, max_length: int, folder: Path) -> Tally:
    """Encode one split batch by batch into `folder`. Raises DataError for a label that corpus.json does not list."""
    tally = Tally()
    columns = ["row", "text", _label_column(corpus), *([] if split == "train" else ["in_train"])]
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(NpyWriter(folder / f"{split}.{name}.npy", dtype, row))
            for name, (dtype, row) in _kinds(corpus, split).items()
        }
        files["offsets"].append(np.zeros(1, np.int64))
        for batch in corpus.batches(split, *columns):
            encoded = encoder.encode(batch["text"].to_list(), max_length)
            offsets = encoded.offsets[1:] + files["ids"].length
            arrays: dict[str, NDArray[Any]] = {"ids": encoded.ids, "offsets": offsets, **_targets(batch, corpus)}
            for name, array in arrays.items():
                files[name].append(array)
            tally.unknown += int((encoded.ids == encoder.unk_id).sum())
            tally.truncated += encoded.truncated
        tally.tokens = files["ids"].length
    return tally


def _label_column(corpus: Corpus) -> str:
    return "labels" if corpus.task == "multi" else "label"


def _kinds(corpus: Corpus, split: str) -> dict[str, tuple[type, tuple[int, ...]]]:
    """The type and the shape of a row of every array of a split."""
    labels: tuple[type, tuple[int, ...]] = (np.int64, ())
    if corpus.task == "multi":
        labels = (np.uint8, (len(corpus.labels),))
    kinds: dict[str, tuple[type, tuple[int, ...]]] = {
        "ids": (np.int32, ()),
        "offsets": (np.int64, ()),
        "labels": labels,
        "rows": (np.int64, ()),
    }
    return kinds if split == "train" else kinds | {"in_train": (np.bool_, ())}


def _targets(batch: pl.DataFrame, corpus: Corpus) -> dict[str, NDArray[Any]]:
    """Everything but the text: labels, row numbers and, where a split has it, `in_train`."""
    labels = _multi(batch, corpus) if corpus.task == "multi" else _label_ids(batch["label"], corpus)
    leaks = {name: batch[name].to_numpy() for name in batch.columns if name == "in_train"}
    return {"labels": labels, "rows": batch["row"].to_numpy(), **leaks}


def _multi(batch: pl.DataFrame, corpus: Corpus) -> NDArray[np.uint8]:
    """One column a label, (N, C)."""
    lines = batch.select(pl.int_range(pl.len()).alias("line"), "labels").explode("labels").drop_nulls("labels")
    matrix = np.zeros((batch.height, len(corpus.labels)), dtype=np.uint8)
    matrix[lines["line"].to_numpy(), _label_ids(lines["labels"], corpus)] = 1
    return matrix


def _label_ids(labels: pl.Series, corpus: Corpus) -> NDArray[np.int64]:
    ids = labels.replace_strict(corpus.labels, list(range(len(corpus.labels))), default=None, return_dtype=pl.Int64)
    if ids.null_count():
        strange = labels.filter(ids.is_null())[0]
        raise DataError(f"{corpus.folder}: label {strange!r} is not in corpus.json: run dvc repro validate")
    return ids.to_numpy()


def write_view(folder: Path, name: str, view: View, corpus: Corpus, read: Reading, table: PosTable) -> Tallies:
    """Write everything of a view into `folder`: tokenizer, arrays, weights and view.json."""
    encoder, special = TextEncoder(read.tokenizer), special_ids(read.tokenizer)
    vocabulary = vocabulary_of(read.tokenizer)
    tallies = {split: write_split(encoder, corpus, split, read.max_length, folder) for split in SPLITS}
    read.tokenizer.save(str(folder / "tokenizer.json"))
    np.save(folder / "pos_weight.npy", weights_for(vocabulary, table, corpus.language))
    about = {
        "view": name,
        "corpus": corpus.name,
        "language": corpus.language,
        "task": corpus.task,
        "labels": corpus.labels,
        "tokenizer": read.kind,
        "checkpoint": view.checkpoint,
        "vocabulary": len(vocabulary),
        "pad_id": special.pad,
        "unk_id": special.unk,
        "mask_id": special.mask,
        "cls_id": special.cls,
        "sep_id": special.sep,
        "prefix_ids": read.prefix_ids,
        "suffix_ids": read.suffix_ids,
        "max_length": read.max_length,
        "truncated": {split: tally.truncated for split, tally in tallies.items()},
        "unknown": {split: tally.unknown_share for split, tally in tallies.items()},
    }
    write_json(folder / "view.json", about)
    return tallies
