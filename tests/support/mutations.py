"""Ways to corrupt a file: changes of raw bytes, and changes that keep JSON, YAML or a container well-formed."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = [b"-1", b"0", b"1e999", b"NaN", b"1.5", b"99999999999999999999", b"2147483648", b"-9223372036854775809"]
PIECES = [b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b'"', b"'", b"\\", b"[", b"{", b"}"]
PIECES += [
    b"\t",
    b" ",
    b",",
    b":",
    b"|||",
    b"null",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x98\x80",
    b"\xc2\x85",
    b"../",
    b"&a *a",
]
DEPTHS = (50, 2_000, 100_000)
VALUES: list[Any] = [None, True, -1, 0, 1.5, 10**20, 2**31, 1e308, "", "x", "\0", "../x", "\ud800", "文", [], {}, [[]]]
VALUES += [["x"], {"x": 1}, [None], "9" * 40, "x" * 300]

Mutation = Callable[[bytes, Random], bytes]


def _place(data: bytes, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _slice(data: bytes, random: Random) -> tuple[int, int]:
    start = _place(data, random)
    return start, min(len(data), start + random.choice((1, 2, 4, 16, 256)))


def truncate(data: bytes, random: Random) -> bytes:
    return data[: _place(data, random)]


def flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 4, 32)) if data else 0):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def insert(data: bytes, random: Random) -> bytes:
    place, piece = _place(data, random), random.choice([*PIECES, *NUMBERS, random.randbytes(random.randrange(1, 9))])
    return data[:place] + piece + data[place:]


def delete(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:start] + data[end:]


def duplicate(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def swap(data: bytes, random: Random) -> bytes:
    """Swap two adjacent slices."""
    start, middle = _slice(data, random)
    end = min(len(data), middle + random.choice((1, 4, 16)))
    return data[:start] + data[middle:end] + data[start:middle] + data[end:]


def overwrite(data: bytes, random: Random) -> bytes:
    place, piece = _place(data, random), random.choice([*PIECES, *NUMBERS, b"\xff" * 8, b"\0" * 8, b"\x7f" * 4])
    return data[:place] + piece + data[place + len(piece) :]


def number(data: bytes, random: Random) -> bytes:
    """Replace one number in a text by another."""
    places = [place for place, byte in enumerate(data[:100_000]) if 0x30 <= byte <= 0x39]
    if not places:
        return insert(data, random)
    start = end = random.choice(places)
    while end < len(data) and 0x30 <= data[end] <= 0x39:
        end += 1
    return data[:start] + random.choice(NUMBERS) + data[end:]


def mark(data: bytes, random: Random) -> bytes:
    return random.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) + data


def line_ends(data: bytes, random: Random) -> bytes:
    return data.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b"")))


def recode(data: bytes, random: Random) -> bytes:
    return data.decode("utf-8", "replace").encode(random.choice(("utf-16", "gbk", "utf-32", "utf-7")), "replace")


def nest(data: bytes, random: Random) -> bytes:
    opened, closed = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"- ", b"")))
    depth, start = random.choice(DEPTHS), _place(data, random)
    return data[:start] + opened * depth + closed * depth + data[start:]


BLIND: list[Mutation] = [truncate, flip, flip, insert, insert, delete, duplicate, swap, overwrite, number, number]
RARE: list[Mutation] = [mark, line_ends, recode, nest]


def blind(data: bytes, random: Random) -> bytes:
    """Change bytes at random one to three times."""
    for _ in range(random.choice((1, 1, 2, 3))):
        data = random.choice(BLIND if random.random() < 0.85 else RARE)(data, random)
    return data


def in_json(data: bytes, random: Random) -> bytes:
    """Change, delete or insert one value of a JSON document and keep it valid; the value is sometimes nested."""
    document = [json.loads(data)]
    holder: Any = document
    key: Any = 0
    while isinstance(holder[key], (dict, list)) and holder[key] and random.random() < 0.8:
        holder = holder[key]
        key = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    chance = random.random()
    if chance < 0.2 and holder is not document:
        del holder[key]
    elif chance < 0.3 and isinstance(holder, dict):
        holder["strange"] = random.choice(VALUES)
    elif chance < 0.4 and isinstance(holder, list) and holder is not document:
        holder.insert(key, random.choice([*VALUES, holder[key]]))
    else:
        holder[key] = random.choice(VALUES)
    return json.dumps(document[0]).encode()
