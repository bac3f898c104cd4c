"""Adaptive computation time (Graves, 2016, §2), for every token by itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Halting(nn.Module):
    """Repeats a step on each token's state until the token's halting probabilities h add up to 1 − ε.

    After N steps the token has the state Σ_n p_n s_n, with p_n = h_n before N and p_N = R = 1 − Σ_{n<N} h_n. A token
    that has halted keeps its state while the others of its text go on, and they still attend to it.
    """

    def __init__(self, *, width: int, epsilon: float = 0.01) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.chance = nn.Linear(width, 1)
        nn.init.ones_(self.chance.bias)  # few steps at first

    def forward(
        self, state: Tensor, valid: Tensor, step: Callable[[Tensor, int], Tensor], steps: int
    ) -> tuple[list[Tensor], Tensor]:
        """States (B, L, D) as they come out where 1, 2, … `steps` steps are the most; ponder cost N + R (B, L).

        `step(state, t)` makes the new states of step t from 1 on. Once all tokens have halted it is not called again.
        """
        running, total = valid, torch.zeros_like(state[..., 0])
        out, cost = torch.zeros_like(state), torch.zeros_like(total)
        states: list[Tensor] = []
        for t in range(1, steps + 1):
            if not torch.compiler.is_exporting() and not running.any():  # a graph takes all steps, to the same end
                return [*states, *states[-1:] * (steps - len(states))], cost
            state = torch.where(running.unsqueeze(-1), step(state, t), state)
            states.append(out + (1 - total).unsqueeze(-1) * state)  # the last step takes the remainder
            h = self.chance(state).squeeze(-1).sigmoid()
            ends = (total + h >= 1 - self.epsilon) if t < steps else torch.ones_like(running)
            p = torch.where(ends, 1 - total, h) * running
            cost = cost + running + (1 - total) * (running & ends)
            out, total = out + p.unsqueeze(-1) * state, total + p
            running = running & ~ends
        return states, cost
