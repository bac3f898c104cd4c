"""Universal Transformer (Dehghani et al., 2019): one block, repeated until each token halts (Graves, 2016, §2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from epigram.core.config_types import Range
from epigram.core.effects import Unless
from epigram.nn import encoders
from epigram.nn.encoders.transformer import TransformerConfig, TransformerEncoder
from epigram.nn.layers.attention.pos_weighting import token_weights
from epigram.nn.layers.embedding import Positions, sinusoids
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


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


@encoders.register("universal_transformer")
@dataclass(frozen=True, kw_only=True)
class UniversalTransformerConfig(TransformerConfig):
    """Settings of the shared block.

    `depth` is the maximum number of steps, `ponder` is τ, the weight of the ponder cost in the loss, and 1 − `epsilon`
    is the halting threshold.
    """

    depth: Annotated[int, Range(ge=1)] = 6
    positions: Positions = "sinusoidal"
    # `ponder` and `epsilon` have no effect if depth is 1: no token can halt before the only step
    ponder: Annotated[float, Range(ge=0.0), Unless("depth", 1)] = 0.01  # τ
    epsilon: Annotated[float, Range(gt=0.0, lt=1.0), Unless("depth", 1)] = 0.01

    def check(self, context: DataSpec) -> None:
        """Raise ValueError also for other `positions`."""
        super().check(context)
        if self.positions != "sinusoidal":
            raise ValueError(
                f"encoder.positions is {self.positions!r}; universal_transformer supports only sinusoidal, because "
                "it also encodes the step by sinusoids"
            )


class UniversalTransformerEncoder(Encoder, settings=UniversalTransformerConfig):
    """Steps H^t = block(H^{t−1} + P^t) with adaptive halting; P^t are the sinusoids of position and step.

    State t is the output for a limit of t steps, so a smaller limit gives a shallower model.
    """

    def __init__(self, config: UniversalTransformerConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width, self.steps = config, config.width, config.depth
        values: dict[str, Any] = {field.name: getattr(config, field.name) for field in fields(TransformerConfig)}
        single = TransformerEncoder(TransformerConfig(**{**values, "depth": 1, "positions": "none"}), context)
        self.embedding, self.blocks = single.embedding, single.blocks
        self.register_buffer("pos_weight", single.pos_weight)
        self.pos_weight: Tensor | None
        self.halting = Halting(width=config.width, epsilon=config.epsilon)
        table = sinusoids(max(context.max_length, config.depth) + 1, config.width)
        self.register_buffer("wave", table, persistent=False)
        self.wave: Tensor

    @property
    def depth(self) -> int:
        """The maximum number of steps."""
        return self.steps

    def drop(self, layer: int) -> None:
        """Reduce the maximum number of steps by one; all steps share one block, so `layer` has no effect."""
        self.steps -= 1

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the embeddings and the states after each step, and the ponder cost τ · mean(N + R)."""
        weight = token_weights(self.pos_weight, tokens)
        block, positions = self.blocks[0], self.wave[1 : tokens.ids.shape[1] + 1]

        def step(state: Tensor, t: int) -> Tensor:
            out: Tensor = block(state + positions + self.wave[t], tokens.valid, weight, tokens.full)  # Eq. 4–7
            return out

        x = self.embedding(tokens)
        states, cost = self.halting(x, tokens.valid, step, self.steps)
        mean = (cost.sum(1) / tokens.valid.sum(1)).mean()
        return Encoded((x, *states), tokens, self.config.ponder * mean)
