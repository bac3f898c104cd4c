"""First pass over a corpus: violations of single rows, and the index that the rules across rows need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from epigram.data.validation.row_batches import Rows, detached
from epigram.data.validation.row_index import Index, Values, repeated, split_codes
from epigram.data.validation.row_rules import corpus_schema, row_faults
from epigram.data.validation.text_matching import label_column, loose_text


@dataclass(frozen=True)
class Survey:
    """Rows of a corpus, their index, and the violations of single rows."""

    rows: Rows
    index: Index
    faults: pl.DataFrame


def survey(rows: Rows, task: str, labels: Sequence[str], *, tokens: bool = False) -> Survey:
    """Check and index every row in one pass; the arguments after `rows` are those of `corpus_schema`."""
    schema = corpus_schema(task, labels, tokens=tokens)
    split, hashes = np.zeros(rows.count, np.uint8), np.zeros(rows.count, np.uint64)
    labelled = Values(rows.count)
    token_labels = Values(rows.count) if tokens else None
    faults, start = [], 0
    for batch in rows.batches():
        faults.append(detached(row_faults(batch, schema)))
        here = slice(start, start + batch.height)
        split[here] = split_codes(batch["split"])
        hashes[here] = batch.select(loose_text().hash()).to_series().to_numpy()
        labelled.add(start, batch[label_column(batch.columns)])
        if token_labels is not None:
            token_labels.add(start, batch["token_labels"].list.unique(maintain_order=True))
        start += batch.height
    return Survey(rows, Index(split, labelled, token_labels, repeated(rows, hashes)), pl.concat(faults))
