"""Recurrent label decoder (CNLE, Liu et al., 2021), which predicts one label per step, and its beam search.

K is the number of beams per text (1 in training). The M = C + 1 label rows are the classes and, last, `<eos>`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from epigram.nn.layers.autocast import output_product


@dataclass(frozen=True)
class DecoderInput:
    """Inputs of a decoder for one batch.

    `text` is X_fin (B, L, D) with `mask` (B, 1, 1, L) or None, `labels` is Λ_fin (B, M, D), `embedded` (M, I) are the
    label embeddings e, and `h` and `c` (B, D) are the initial hidden and cell state.
    """

    text: Tensor
    mask: Tensor | None
    labels: Tensor
    embedded: Tensor
    h: Tensor
    c: Tensor


class LabelDecoder(nn.Module):
    """Decoder h_t, c_t = LSTMCell([e_{t−1}; r_{t−1}], h, c) with the readout r and the label scores.

    `inputs` is I, the width of a label embedding; `width` is D, the width of h, c and r.
    """

    def __init__(self, *, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs, self.width = inputs, width
        self.cell = nn.LSTMCell(inputs + width, width)
        self.attend = nn.Linear(width, width, bias=False)  # W₁
        self.combine = nn.Linear(2 * width, width, bias=False)  # W₂
        self.classify = nn.Linear(width, width, bias=False)  # W₃

    def start(self, inputs: DecoderInput, beams: int = 1) -> tuple[Tensor, Tensor]:
        """Return h_1, c_1 (B, K, D), computed from the text's last state; e₀ and r₀ are zero."""
        h, c = (t.unsqueeze(1).repeat(1, beams, 1) for t in (inputs.h, inputs.c))
        return self.step(h.new_zeros(*h.shape[:2], self.inputs), torch.zeros_like(h), h, c)

    def step(self, e: Tensor, r: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return h_t, c_t (B, K, D) from the label embeddings `e` (B, K, I) and the readout `r` (B, K, D)."""
        x = torch.cat([e, r], -1).flatten(0, 1)  # (B·K, I + D)
        new_h, new_c = self.cell(x, (h.flatten(0, 1), c.flatten(0, 1)))
        return new_h.view_as(h), new_c.view_as(c)

    def readout(self, h: Tensor, inputs: DecoderInput) -> Tensor:
        """Return r_t = tanh(W₂ [X_finᵀ a_t; h_t]) with a_t = softmax(X_fin W₁ h_t): (B, K, D)."""
        query, text = self.attend(h).unsqueeze(1), inputs.text.unsqueeze(1)  # one head: ONNX has no attention without
        attended = scaled_dot_product_attention(query, text, text, inputs.mask, scale=1.0).squeeze(1)
        return torch.tanh(self.combine(torch.cat([attended, h], -1)))

    def scores(self, h: Tensor, inputs: DecoderInput) -> Tensor:
        """Return Λ_fin W₃ h_t, the logits of ŷ_t: (B, K, M)."""
        return output_product(torch.bmm, self.classify(h), inputs.labels.transpose(1, 2)).float()

    def forward(self, inputs: DecoderInput, targets: Tensor) -> Tensor:
        """Return the logits (B, T, M) of T steps, each given the true label of the previous step, `targets` (B, T)."""
        h, c = self.start(inputs)
        steps = [h]
        for position in range(targets.shape[1] - 1):
            e = inputs.embedded[targets[:, position]].unsqueeze(1)
            h, c = self.step(e, self.readout(h, inputs), h, c)
            steps.append(h)
        return self.scores(torch.cat(steps, 1), inputs)


def beam_search(decoder: LabelDecoder, inputs: DecoderInput, *, beams: int, max_labels: int) -> tuple[Tensor, Tensor]:
    """Decode the labels of each text by beam search with `beams` beams (1 is greedy), scored by Σ log ŷ.

    At most `max_labels` labels are chosen per text, each at most once: ŷ_t is the softmax over the remaining labels.
    Returns the chosen labels of the best beam (B, C) bool and the highest ŷ_t of each label over its steps (B, C). A
    beam that has ended keeps its score, so the result of a text does not depend on its batch.
    """
    batch, rows = inputs.labels.shape[:2]
    eos = rows - 1
    h, c = decoder.start(inputs, beams)
    score = h.new_full((batch, beams), float("-inf"), dtype=torch.float32)
    score[:, 0] = 0.0  # start from one beam
    chosen = torch.zeros(batch, beams, rows, dtype=torch.bool, device=h.device)
    highest = torch.zeros(batch, beams, rows, device=h.device)
    ended_log_y = torch.full((rows,), float("-inf"), device=h.device)
    ended_log_y[eos] = 0.0
    for step in range(1, max_labels + 1):
        ended = chosen[..., eos:]  # (B, K, 1)
        log_y = decoder.scores(h, inputs).masked_fill(chosen, float("-inf")).log_softmax(-1)
        highest = torch.where(ended, highest, torch.maximum(highest, log_y.exp()))
        total = score.unsqueeze(-1) + torch.where(ended, ended_log_y, log_y)  # (B, K, M)
        score, best = total.flatten(1).topk(beams)  # best first
        beam, label = best // rows, best % rows
        h, c, chosen, highest = (_select_beams(t, beam) for t in (h, c, chosen, highest))
        chosen = chosen.scatter(-1, label.unsqueeze(-1), True)
        if step == max_labels or (not torch.compiler.is_exporting() and bool(chosen[:, 0, eos].all())):
            break  # a graph takes all steps, which change nothing in a beam that has ended
        h, c = decoder.step(inputs.embedded[label], decoder.readout(h, inputs), h, c)
    return chosen[:, 0, :eos], highest[:, 0, :eos]


def _select_beams(t: Tensor, beam: Tensor) -> Tensor:
    """Return the rows of `t` (B, K, X) at the parent beams `beam` (B, K)."""
    return t.gather(1, beam.unsqueeze(-1).expand_as(t))
