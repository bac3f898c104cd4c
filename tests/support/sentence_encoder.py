"""Small checkpoint of a Universal Sentence Encoder with random weights, and its forward pass read from the paper."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUPS, WIDTH, BRANCH, HIDDEN = 17, 512, 256, 320
ORDERS = {2: (0, 1), 3: (-1, 0, 1), 5: (-2, -1, 0, 1, 2)}  # tokens read, relative to the token
SPECIAL = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("extra", 0.0, 4)]
CHARACTER_MAP = struct.pack("<I", 1024) + bytes(1024)  # maps every character to itself
Floats = NDArray[np.float64]


def varint(number: int) -> bytes:
    """Return a number in groups of seven bits."""
    found = []
    while True:
        number, low = number >> 7, number & 127
        found.append(low | (128 if number else 0))
        if not number:
            return bytes(found)


def field(number: int, value: bytes | int | float) -> bytes:
    """Return a field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_model(pieces: Iterable[tuple[str, float]], character_map: bytes = CHARACTER_MAP) -> bytes:
    """Return a unigram model with the special pieces, and `pieces` with their scores (log-probabilities)."""
    every = [*SPECIAL, *((text, score, 1) for text, score in pieces)]
    messages = [
        field(1, field(1, text.encode()) + field(2, float(score)) + (b"" if kind == 1 else field(3, kind)))
        for text, score, kind in every
    ]
    return b"".join(messages) + field(3, field(1, b"test") + field(2, character_map))


def weights(rows: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return random weights for a table of `rows` token vectors in 17 blocks, with the names of the package's file."""
    draw = np.random.default_rng(seed)
    found: dict[str, NDArray[Any]] = {
        f"q{n + 1}": draw.integers(0, 256, (-(-rows // GROUPS), WIDTH), dtype=np.uint8) for n in range(GROUPS)
    }
    found |= {"scale": draw.uniform(0.002, 0.01, GROUPS), "lo": draw.uniform(-1, -0.5, GROUPS), "eps": np.array(1e-12)}
    features = WIDTH + 3 * BRANCH
    shapes = {"cnn_W": (features, WIDTH), "d0": (WIDTH, HIDDEN), "d1": (HIDDEN, HIDDEN), "p1": (WIDTH, HIDDEN)}
    shapes |= {"d2": (HIDDEN, WIDTH), "d3": (WIDTH, WIDTH), "p3": (HIDDEN, WIDTH)}
    for n in ORDERS:
        shapes |= {f"proj{n}": (WIDTH, BRANCH), f"w1_{n}": (n * BRANCH, BRANCH), f"w2_{n}": (n * BRANCH, BRANCH)}
    found |= {name: draw.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}
    sizes = {"cnn_b": WIDTH, "ln_b": features} | {
        f"{name}{n}": BRANCH for name in ("proj_b", "ln_b", "b1_", "b2_") for n in ORDERS
    }
    found |= {name: 0.1 * draw.normal(size=size) for name, size in sizes.items()}
    found |= {"ln_g": 1 + 0.1 * draw.normal(size=features)}
    found |= {f"ln_g{n}": 1 + 0.1 * draw.normal(size=BRANCH) for n in ORDERS}
    return {name: value if value.dtype == np.uint8 else value.astype(np.float32) for name, value in found.items()}


def exact(given: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the weights in float64."""
    return {name: value if value.dtype == np.uint8 else value.astype(np.float64) for name, value in given.items()}


def encoding(given: dict[str, NDArray[Any]], ids: Sequence[int]) -> Floats:
    """Return the encoding (512,) of one text in float64, token by token."""
    w, text = exact(given), summed(given, ids)
    first = (text @ w["p1"] + (text @ w["d0"]).clip(0) @ w["d1"]).clip(0)
    second = np.tanh(first @ w["p3"] + (first @ w["d2"]).clip(0) @ w["d3"])
    return np.asarray(second / np.linalg.norm(second))


def summed(given: dict[str, NDArray[Any]], ids: Sequence[int]) -> Floats:
    """Return the projected sum over the tokens (512,), divided by √L."""
    w = exact(given)
    x = np.array([w[f"q{i % GROUPS + 1}"][i // GROUPS] * w["scale"][i % GROUPS] + w["lo"][i % GROUPS] for i in ids])
    projected = np.concatenate([x @ w[f"proj{n}"] + w[f"proj_b{n}"] for n in ORDERS], 1)
    gain, shift = (np.concatenate([w[f"{name}{n}"] for n in ORDERS]) for name in ("ln_g", "ln_b"))
    normed = normalized(projected) * gain + shift
    branches = []
    for place, n in enumerate(ORDERS):
        h = normed[:, place * BRANCH : (place + 1) * BRANCH]
        for layer in (1, 2):
            h = np.array([window(h, t, n) @ w[f"w{layer}_{n}"] + w[f"b{layer}_{n}"] for t in range(len(h))]).clip(0) + h
        branches.append(h)
    features = normalized(np.concatenate([x, *branches], 1)) * w["ln_g"] + w["ln_b"]
    return np.asarray(sum(row @ w["cnn_W"] + w["cnn_b"] for row in features) / np.sqrt(len(ids)))


def normalized(x: Floats) -> Floats:
    """Return the rows of `x` with mean 0 and variance 1."""
    return np.asarray((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12))


def window(x: Floats, t: int, n: int) -> Floats:
    """Return the tokens around token `t` one after the other, zeros outside the text."""
    return np.concatenate([x[t + k] if 0 <= t + k < len(x) else np.zeros(x.shape[1]) for k in ORDERS[n]])


def write_checkpoint(folder: Path, words: Sequence[str], seed: int = 0) -> dict[str, NDArray[Any]]:
    """Write a checkpoint whose pieces are `words`, each after a space, and single letters; return its weights."""
    letters = sorted({letter for word in words for letter in word} | set("▁abcdefghijklmnopqrstuvwxyz"))
    pieces = [*((f"▁{word}", -1.0) for word in words), *((letter, -10.0) for letter in letters)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sp.model").write_bytes(sentencepiece_model(pieces))
    given = weights(len(SPECIAL) + len(pieces), seed)
    np.savez(folder / "weights.npz", **given)  # type: ignore[arg-type]
    return given
