"""A view with a part of its rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.sampling import choose_rows
from epigram.text.dataset.encoded_dataset import Split, View, fold_folder


@dataclass(frozen=True)
class SampledView(View):
    """View with at most `rows` rows of train and `held_out` of dev: nested random subsets, always the same."""

    rows: int = 0
    held_out: int = 0

    @classmethod
    def of(cls, view: View, rows: int, held_out: int) -> SampledView:
        """Return `view` with fewer rows."""
        return cls(**{each.name: getattr(view, each.name) for each in fields(View)}, rows=rows, held_out=held_out)

    def split(self, name: str) -> Split:
        """Return the sampled rows of a split, in their order."""
        part = super().split(name)
        most = {"train": self.rows, "dev": self.held_out}.get(name, len(part))
        if most >= len(part):
            return part
        return take(part, choose_rows(len(part), most))

    def fold(self, number: int) -> SampledView:
        """Return the view of one fold, with as many rows."""
        return SampledView.of(View.load(fold_folder(self.folder, number)), self.rows, self.held_out)


def take(part: Split, rows: NDArray[np.int64]) -> Split:
    """Return the rows of a split at the places `rows`."""
    words: dict[str, Any] = {}
    for name in ("token_labels", "words"):
        if (values := getattr(part, name)) is not None:
            words[name] = part.ids.with_values(values)[rows].values
    if part.characters is not None:  # one row of characters per token
        words["characters"] = part.characters[part.ids.with_values(np.arange(len(part.ids.values)))[rows].values]
    return replace(
        part,
        ids=part.ids[rows],
        labels=part.labels[rows],
        rows=part.rows[rows],
        in_train=None if part.in_train is None else part.in_train[rows],
        **words,
    )
