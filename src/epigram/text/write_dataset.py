"""Writer of encoded views: the flat arrays of every split, batch by batch, and view.json."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.files import sha256, write_json
from epigram.core.ragged import NpyWriter, read_array
from epigram.text.encoding import TextEncoder
from epigram.text.pos_table import PosTable, weights_for
from epigram.text.settings import View
from epigram.text.token_arrays import BORDERS, TokenReader
from epigram.text.tokenizers import special_ids, vocabulary_of
from epigram.text.validated_corpus import SPLITS, Corpus
from epigram.text.vectors import Vectors, coverage
from epigram.text.vocabulary import Reading


@dataclass
class Tally:
    """Token counts of one written split."""

    tokens: int = 0
    unknown: int = 0
    truncated: int = 0

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that are not in the vocabulary."""
        return self.unknown / max(self.tokens, 1)


class Written(NamedTuple):
    """Summary of a written view: the counts of each split, and the entry `vectors` of view.json."""

    tallies: dict[str, Tally]
    vectors: dict[str, Any] | None


def write_split(reader: TokenReader, corpus: Corpus, split: str, folder: Path) -> Tally:
    """Encode one split into `folder`, batch by batch. Raises DataError for a label that corpus.json does not list."""
    tally, kinds = Tally(), _kinds(corpus, split, reader)
    columns = [*reader.columns, _label_column(corpus), *([] if split == "train" else ["in_train"])]
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(NpyWriter(folder / f"{split}.{name}.npy", dtype, row))
            for name, (dtype, row) in kinds.items()
        }
        borders = {name: files[of] for name, of in BORDERS.items() if name in files}
        for name in borders:
            files[name].append(np.zeros(1, np.int64))
        for batch in corpus.batches(split, *columns):
            arrays, truncated = reader.read(batch)
            arrays |= _targets(batch, corpus)
            arrays |= {name: arrays[name][1:] + file.length for name, file in borders.items()}
            for name, array in arrays.items():
                files[name].append(array)
            tally.unknown += int((arrays["ids"] == reader.unk_id).sum())
            tally.truncated += truncated
        tally.tokens = files["ids"].length
    return tally


def _label_column(corpus: Corpus) -> str:
    return "labels" if corpus.task == "multi" else "label"


def _kinds(corpus: Corpus, split: str, reader: TokenReader) -> dict[str, tuple[type, tuple[int, ...]]]:
    """Return the data type and row shape of every array of a split."""
    labels: tuple[type, tuple[int, ...]] = (np.int64, ())
    if corpus.task == "multi":
        labels = (np.uint8, (len(corpus.labels),))
    kinds: dict[str, tuple[type, tuple[int, ...]]] = {name: (dtype, ()) for name, dtype in reader.kinds.items()}
    kinds |= {"labels": labels, "rows": (np.int64, ())}
    return kinds if split == "train" else kinds | {"in_train": (np.bool_, ())}


def _targets(batch: pl.DataFrame, corpus: Corpus) -> dict[str, NDArray[Any]]:
    """Return the arrays other than tokens: labels, row numbers and, if the split has it, `in_train`."""
    labels = _multi(batch, corpus) if corpus.task == "multi" else corpus.label_ids(batch["label"], corpus.labels)
    leaks = {name: batch[name].to_numpy() for name in batch.columns if name == "in_train"}
    return {"labels": labels, "rows": batch["row"].to_numpy(), **leaks}


def _multi(batch: pl.DataFrame, corpus: Corpus) -> NDArray[np.uint8]:
    """Return the labels as a binary matrix, (N, C)."""
    lines = batch.select(pl.int_range(pl.len()).alias("line"), "labels").explode("labels").drop_nulls("labels")
    matrix = np.zeros((batch.height, len(corpus.labels)), dtype=np.uint8)
    matrix[lines["line"].to_numpy(), corpus.label_ids(lines["labels"], corpus.labels)] = 1
    return matrix


def write_view(
    folder: Path, name: str, view: View, corpus: Corpus, read: Reading, table: PosTable, vectors: Vectors | None
) -> Written:
    """Write a view into `folder`: tokenizer, arrays, part-of-speech weights, `vectors` (V, E) and view.json."""
    reader = TokenReader(TextEncoder(read.tokenizer), corpus, read.characters, read.max_length)
    vocabulary = vocabulary_of(read.tokenizer)
    tallies = {split: write_split(reader, corpus, split, folder) for split in SPLITS}
    read.tokenizer.save(str(folder / "tokenizer.json"))
    np.save(folder / "pos_weight.npy", weights_for(vocabulary, table, corpus.language))
    covered = None
    if vectors is not None:
        np.save(folder / "vectors.npy", vectors)
        file = Path(str(view.vectors)).name
        covered = {"file": file, **coverage(vectors, read_array(folder / "train.ids.npy"))}
    about = {
        "view": name,
        **_of_corpus(corpus),
        "tokenizer": read.kind,
        "checkpoint": view.checkpoint,
        "weights": _weights(view.checkpoint),
        "vocabulary": len(vocabulary),
        **_ids(read),
        "max_length": read.max_length,
        "characters": read.characters,
        "vectors": covered,
        "truncated": {split: tally.truncated for split, tally in tallies.items()},
        "unknown": {split: tally.unknown_share for split, tally in tallies.items()},
    }
    write_json(folder / "view.json", about)
    return Written(tallies, covered)


def _weights(checkpoint: str | None) -> str | None:
    """Return a digest of the weights and settings in a checkpoint folder; None for a name on the hub."""
    # stages that load the weights depend on view.json, so a changed checkpoint makes them run again;
    # a checkpoint on the hub is downloaded where it is needed
    folder = Path(checkpoint or "").expanduser()
    if checkpoint is None or not folder.is_dir():
        return None
    files = sorted(path for pattern in ("*.json", "*.safetensors") for path in folder.glob(pattern) if path.is_file())
    return hashlib.sha256("".join(f"{path.name} {sha256(path)}\n" for path in files).encode()).hexdigest()


def _of_corpus(corpus: Corpus) -> dict[str, Any]:
    return {
        "corpus": corpus.name,
        "language": corpus.language,
        "task": corpus.task,
        "labels": corpus.labels,
        "token_labels": corpus.token_labels,
        "tokens_only": corpus.tokens_only,
    }


def _ids(read: Reading) -> dict[str, Any]:
    special = special_ids(read.tokenizer)
    return {
        "pad_id": special.pad,
        "unk_id": special.unk,
        "mask_id": special.mask,
        "cls_id": special.cls,
        "sep_id": special.sep,
        "prefix_ids": read.prefix_ids,
        "suffix_ids": read.suffix_ids,
    }
