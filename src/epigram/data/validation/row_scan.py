"""First pass over a corpus: violations of single rows, and the index that the rules across rows need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from epigram.data.validation.row_batches import Rows, copy_frame
from epigram.data.validation.row_index import LabelCodes, RowIndex, find_repeated, split_codes
from epigram.data.validation.row_rules import check_rows, corpus_schema
from epigram.data.validation.text_matching import label_column, loose_text


@dataclass(frozen=True)
class RowScan:
    """Rows of a corpus, their index, and the violations of single rows."""

    rows: Rows
    index: RowIndex
    violations: pl.DataFrame


def scan_rows(rows: Rows, task: str, labels: Sequence[str], *, tokens: bool = False) -> RowScan:
    """Check and index every row in one pass; the arguments after `rows` are those of `corpus_schema`."""
    schema = corpus_schema(task, labels, tokens=tokens)
    split, hashes = np.zeros(rows.count, np.uint8), np.zeros(rows.count, np.uint64)
    labels_of_rows = LabelCodes(rows.count)
    token_labels = LabelCodes(rows.count) if tokens else None
    found, start = [], 0
    for batch in rows.batches():
        found.append(copy_frame(check_rows(batch, schema)))
        here = slice(start, start + batch.height)
        split[here] = split_codes(batch["split"])
        hashes[here] = batch.select(loose_text().hash()).to_series().to_numpy()
        labels_of_rows.add(start, batch[label_column(batch.columns)])
        if token_labels is not None:
            token_labels.add(start, batch["token_labels"].list.unique(maintain_order=True))
        start += batch.height
    return RowScan(rows, RowIndex(split, labels_of_rows, token_labels, find_repeated(rows, hashes)), pl.concat(found))
