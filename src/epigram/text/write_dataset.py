"""Writer of encoded views: the flat arrays of every split, batch by batch, and view.json."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epigram.checkpoints.folders import checkpoint_folder, verify_checkpoint
from epigram.core.arrays import read_array
from epigram.core.files import sha256, write_json, write_text
from epigram.text.dataset.encoded_dataset import ENTRIES
from epigram.text.dataset.language import Language
from epigram.text.dataset.pos_words import PosWords
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.pos.pos_table import PosTable, weights_for
from epigram.text.prompts.prompts import label_tokens
from epigram.text.settings import ViewSettings
from epigram.text.student_texts import StudentTexts, write_texts
from epigram.text.token_arrays import RowEncoder, array_files
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import special_ids, vocabulary_of
from epigram.text.tokens.vocabulary import ViewTokenizer
from epigram.text.vectors.vectors import Vectors, coverage

# content of corpus.json that view.json repeats
CORPUS_KEYS = ("language", "task", "labels", "token_labels", "tokens_only", "text_columns", "join")


@dataclass
class SplitCounts:
    """Token counts of one written split."""

    tokens: int = 0
    unknown: int = 0
    truncated: int = 0

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that are not in the vocabulary."""
        return self.unknown / max(self.tokens, 1)


class ViewSummary(NamedTuple):
    """Summary of a written view: the counts of each split, and the entry `vectors` of view.json."""

    counts: dict[str, SplitCounts]
    vectors: dict[str, Any] | None


class Entries(NamedTuple):
    """Entries of a tokenizer in the order of their ids, and their part-of-speech weights (V,).

    `words` are the weights of words, if tokens may be parts of words.
    """

    vocabulary: list[str]
    weights: NDArray[np.float32]
    words: PosWords | None


def entries_of(tokenizer: ViewTokenizer, table: PosTable, language: Language, words: PosWords | None) -> Entries:
    """Return the entries of a view's tokenizer with the weights of `table`, and the weights of `words`."""
    vocabulary = vocabulary_of(tokenizer.tokenizer)
    return Entries(vocabulary, weights_for(vocabulary, table, language), words)


def write_split(encoder: RowEncoder, corpus: ValidatedCorpus, split: str, folder: Path) -> SplitCounts:
    """Encode one split into `folder`, batch by batch. Raises DataError for a label that corpus.json does not list."""
    counts, types = SplitCounts(), {**encoder.types, "labels": (np.int64, ())}
    if corpus.task == "multi":
        types["labels"] = (np.uint8, (len(corpus.labels),))
    leaks = [] if split == "train" else ["in_train"]
    types |= dict.fromkeys(leaks, (np.bool_, ()))
    with array_files(folder, split, types) as append:
        for batch in corpus.batches(split, *encoder.columns, corpus.label_column, *leaks):
            encoded = encoder.encode(batch)
            others = {name: batch[name].to_numpy() for name in leaks}
            append(encoded, {"labels": corpus.label_array(batch), "rows": batch["row"].to_numpy(), **others})
            ids = encoded.ragged["ids"].values
            counts.tokens += len(ids)
            counts.unknown += int((ids == encoder.unk_id).sum())
            counts.truncated += encoded.truncated
    return counts


def write_view(
    folder: Path,
    name: str,
    view: ViewSettings,
    corpus: ValidatedCorpus,
    tokenizer: ViewTokenizer,
    entries: Entries,
    vectors: Vectors | None,
    texts: StudentTexts | None = None,
) -> ViewSummary:
    """Write a view into `folder`: tokenizer, arrays, part-of-speech weights, `vectors` (V, E) and view.json.

    `texts` are the texts without labels, if the view has some.
    """
    reader = TextEncoder(tokenizer.tokenizer, corpus.join)
    encoder = RowEncoder(reader, corpus, tokenizer.characters, tokenizer.max_length)
    vocabulary, weights, words = entries
    counts = {split: write_split(encoder, corpus, split, folder) for split in corpus.splits}
    if texts is not None:
        plain = replace(corpus, token_labels=[])  # texts without labels have no labelled words either
        rows = RowEncoder(reader, plain, tokenizer.characters, tokenizer.max_length)
        write_texts(folder, texts, corpus, rows)
    tokenizer.tokenizer.save(str(folder / "tokenizer.json"))
    np.save(folder / "pos_weight.npy", weights)
    if words is not None:
        write_text(folder / ENTRIES, json.dumps(vocabulary, ensure_ascii=False))  # indented, it takes a second
    vector_coverage = None
    if vectors is not None:
        np.save(folder / "vectors.npy", vectors)
        file = Path(str(view.vectors)).name
        vector_coverage = {"file": file, **coverage(vectors, read_array(folder / "train.ids.npy"))}
    special = special_ids(tokenizer.tokenizer)
    content = {
        "view": name,
        "corpus": corpus.name,
        "rows_digest": corpus.digest(),
        **{key: getattr(corpus, key) for key in CORPUS_KEYS},
        "label_tokens": label_tokens(corpus.label_names or corpus.labels, tokenizer.tokenizer, tokenizer.max_length),
        "tokenizer": tokenizer.kind,
        "checkpoint": view.checkpoint,
        "weights": _checkpoint_digest(view.checkpoint),
        "vocabulary": len(vocabulary),
        **{f"{kind}_id": getattr(special, kind) for kind in ("pad", "unk", "mask", "cls", "sep")},
        "prefix_ids": tokenizer.prefix_ids,
        "suffix_ids": tokenizer.suffix_ids,
        "max_length": tokenizer.max_length,
        "folds": corpus.folds,
        "characters": tokenizer.characters,
        "pos_words": None if words is None else asdict(words),
        "unlabelled": None if texts is None else texts.about,
        "vectors": vector_coverage,
        "truncated": {split: part.truncated for split, part in counts.items()},
        "unknown": {split: part.unknown_share for split, part in counts.items()},
    }
    write_json(folder / "view.json", content)
    return ViewSummary(counts, vector_coverage)


def _checkpoint_digest(checkpoint: str | None) -> str | None:
    """Return a digest of the weights and settings of a checkpoint."""
    # stages that load the weights depend on view.json, so a changed checkpoint makes them run again
    if checkpoint is None:
        return None
    folder = checkpoint_folder(checkpoint)
    verify_checkpoint(checkpoint)
    patterns = ("*.json", "*.safetensors", "*.npz", "*.model")
    files = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    return hashlib.sha256("".join(f"{path.name} {sha256(path)}\n" for path in files).encode()).hexdigest()
