"""Batch normalization for texts of different lengths (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import batch_norm

from epigram.nn.layers.masking import valid_positions


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch normalization over valid positions only: (B, C, L) → (B, C, L), zero on padding; C channels.

    In training, mean and variance are computed over all valid positions of the batch and do not depend on padding. At
    inference the running statistics are used, so a row does not depend on the other rows. A training batch with a
    single valid position has no variance and uses the running statistics.
    """

    def forward(self, x: Tensor, valid: Tensor, count: int | None = None) -> Tensor:  # type: ignore[override]
        """Normalize `x` (B, C, L) at its `valid` positions (B, L), of which there are `count`, if the host knows it."""
        if not self.training:
            return super().forward(x) * valid.unsqueeze(1).to(x.dtype)
        columns = x.transpose(1, 2)  # (B, L, C)
        where = valid_positions(valid, count)
        rows = columns[where]  # (T, C)
        use_batch_statistics = len(rows) > 1
        rows = batch_norm(
            rows,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=use_batch_statistics,
            momentum=self.momentum or 0.0,
            eps=self.eps,
        )
        out = rows.new_zeros(columns.shape)
        out[where] = rows
        return out.transpose(1, 2)
