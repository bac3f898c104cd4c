"""Adaptive computation time (Graves, 2016, §2), for each token separately."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Halting(nn.Module):
    """Loop that repeats a step on each token's state until the token's halting probabilities h sum to 1 − ε.

    A token that halts after N steps has the state Σ_n p_n s_n, with p_n = h_n for n < N and
    p_N = R = 1 − Σ_{n<N} h_n. While other tokens of the text continue, it keeps its state and they still attend to it.
    """

    def __init__(self, *, width: int, epsilon: float = 0.01) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.chance = nn.Linear(width, 1)
        nn.init.ones_(self.chance.bias)  # few steps at first

    def forward(
        self, state: Tensor, valid: Tensor, step: Callable[[Tensor, int], Tensor], steps: int
    ) -> tuple[list[Tensor], Tensor]:
        """Return the output states (B, L, D) for each limit of 1, 2, … `steps` steps, and the ponder cost N + R (B, L).

        `state` is (B, L, D) and `valid` (B, L). `step(state, t)` returns the states after step t, t = 1, 2, …; it is
        not called again once all tokens have halted.
        """
        running, total = valid, torch.zeros_like(state[..., 0])
        out, cost = torch.zeros_like(state), torch.zeros_like(total)
        states: list[Tensor] = []
        for t in range(1, steps + 1):
            if not torch.compiler.is_exporting() and not running.any():  # exported graphs run all steps: same result
                return [*states, *states[-1:] * (steps - len(states))], cost
            state = torch.where(running.unsqueeze(-1), step(state, t), state)
            states.append(out + (1 - total).unsqueeze(-1) * state)  # the last step has weight R
            h = self.chance(state).squeeze(-1).sigmoid()
            ends = (total + h >= 1 - self.epsilon) if t < steps else torch.ones_like(running)
            p = torch.where(ends, 1 - total, h) * running
            cost = cost + running + (1 - total) * (running & ends)
            out, total = out + p.unsqueeze(-1) * state, total + p
            running = running & ~ends
        return states, cost
