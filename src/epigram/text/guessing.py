"""Decision on the encoding of a text: UTF-8 if its bytes are valid, else the encoding of the most likely decoding."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from epigram.core.errors import DataError, ReadOptionError
from epigram.text.likelihood import ASCII_COST, CENTRAL, FREQUENT, OWN_LANGUAGES, WESTERN, most_likely_language

SAMPLE_SIZE = 1 << 16  # bytes of lines that are compared
LAST_LINES = 100  # lines at the end of a longer text that are compared with the encoding of the first ones
BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# first bytes of files that are not text, and advice for each
BINARY = {
    b"\x1f\x8b": "is compressed (gzip); unpack it, or end the name of a table with .gz, such as .csv.gz",
    b"BZh": "is compressed (bzip2); unpack it",
    b"\xfd7zXZ\0": "is compressed (xz); unpack it",
    b"\x28\xb5\x2f\xfd": "is compressed (zstd); unpack it",
    b"PK\3\4": "is a zip archive or an Excel workbook; unpack it, or give it the suffix .xlsx",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook; save it as .xlsx or csv",
    b"PAR1": "is a parquet file; give it the suffix .parquet",
    b"SQLite format 3\0": "is an SQLite database; export the table as csv",
    b"%PDF": "is a PDF document; convert it to csv",
}
FIRST_BYTES = max(map(len, BINARY))
WIDE = dict.fromkeys(("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"), OWN_LANGUAGES)
# encodings that contain ASCII, each with the languages that are written in it
NARROW = {
    "gb18030": ("Chinese",),
    "cp1252": WESTERN,
    "big5hkscs": ("Chinese",),
    "cp932": ("Japanese",),
    "euc_jp": ("Japanese",),
    "cp949": ("Korean",),
    "cp1251": ("Russian",),
    "koi8_r": ("Russian",),
    "cp866": ("Russian",),
    "cp1250": CENTRAL,
    "cp1257": CENTRAL,
    "cp1254": ("Turkish",),
    "cp1253": ("Greek",),
    "cp1255": ("Hebrew",),
    "cp1256": ("Arabic",),
    "cp874": ("Thai",),
    "mac_roman": WESTERN,
    "cp850": WESTERN,
    "iso8859_15": WESTERN,
    "cp852": CENTRAL,
}
OWN = {encoding: NARROW[encoding] for encoding in ("gb18030", "cp1252", "big5hkscs")}
RARE = {"mac_roman", "cp850", "iso8859_15", "cp852"}  # encodings that are less likely a priori
RARE_COST = 12.0  # bits
MARGIN = 8.0  # bits by which the best reading must be better than the next
USUAL_COST = 10.0  # average bits of a character that is not ASCII, in a text that is read rightly
LINE_MARGIN = 24.0  # the same for a single line, which may consist of two rare characters
MAX_COST = dict.fromkeys(FREQUENT, 14.0) | dict.fromkeys(
    WESTERN, 12.0
)  # average bits of a character that is not ASCII, in a plausible text
SHOWN = 40  # characters of a line in an error


@dataclass(frozen=True, order=True)
class Reading:
    """Text of a sample by one encoding; `cost` says in bits how unlikely it is."""

    cost: float
    encoding: str
    language: str
    text: str

    @property
    def is_plausible(self) -> bool:
        """Whether the text looks like a text of its language at all."""
        return self.costs_at_most(MAX_COST[self.language], MARGIN)

    def costs_at_most(self, average: float, more: float = 0.0) -> bool:
        """Return whether a character that is not ASCII costs at most `average` bits, and all of them `more` bits."""
        others = sum(character > "\x7f" for character in self.text)
        return self.cost - ASCII_COST * (len(self.text) - others) <= average * others + more

    def read(self, line: bytes) -> str:
        """Return the text of `line` by the encoding."""
        return line.decode(self.encoding, "replace").strip()

    def show(self, line: bytes) -> str:
        """Return how the encoding reads `line`."""
        return f"{self.encoding} ({self.language}) reads {self.read(line)[:SHOWN]!r}"


@dataclass
class Sample:
    """First and last lines of a kind with their places, and the size of all lines of this kind in bytes."""

    size: int = 0
    lines: list[tuple[str, bytes]] = field(default_factory=list)
    last: deque[tuple[str, bytes]] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def add(self, where: str, line: bytes) -> None:
        """Count a line, and keep it if there is room."""
        (self.lines if self.size < SAMPLE_SIZE else self.last).append((where, line[:SAMPLE_SIZE]))
        self.size += len(line)


def check_binary(head: bytes, path: Path) -> None:
    """Raise DataError if the FIRST_BYTES of the file `path` show that it is not text."""
    if advice := next((advice for mark, advice in BINARY.items() if head.startswith(mark)), None):
        raise DataError(f"{path} {advice}")


def detect_encoding(lines: Iterable[bytes], name: str, first: int = 1) -> str:
    """Return the encoding of a text of these lines.

    Errors name a line by `name` and its number, which is `first` for the first one. Raises DataError if lines have
    different encodings, if no encoding is clearly the most likely one, and if the text is neither Chinese nor in Latin
    letters of Western Europe.
    """
    lines, head, size = iter(lines), list[bytes](), 0
    while size < SAMPLE_SIZE and (line := next(lines, None)) is not None:
        head.append(line)
        size += len(line)
    if encoding := _detect_wide(head, name, first):
        return encoding
    utf8, others = Sample(), Sample()
    for number, line in enumerate(chain(head, lines), first):
        if not line.isascii():
            (others if _decode(line, "utf-8") is None else utf8).add(f"{name} {number}", line)
    return _decide(utf8, others) if others.size else "utf-8"


def _detect_wide(head: list[bytes], name: str, first: int) -> str:
    """Return UTF-16 or UTF-32 if the text starts like one, else "". Raises DataError for other bytes with NUL."""
    data = b"".join(head)
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return encoding
    if b"\0" not in data:
        return ""
    readings = _rank(data[: len(data) // 4 * 4], WIDE)
    best = readings[0] if readings else None
    if best is None or not best.is_plausible or "\n" not in best.text or not best.text.strip():
        number = next(number for number, line in enumerate(head, first) if b"\0" in line)
        raise DataError(f"{name} {number} has a NUL byte; the input is not text, or is damaged")
    return best.encoding


def _decide(utf8: Sample, others: Sample) -> str:
    """Return the encoding of the lines `others`, which are not UTF-8, if the lines `utf8` may have it too."""
    where, line = others.lines[0]
    if utf8.size >= others.size:
        shown = "".join(f" ({best.show(line)})" for best in _rank(line, NARROW)[:1] if best.language in OWN_LANGUAGES)
        raise DataError(f"{where} is not UTF-8, but other lines are; it is damaged or has another encoding{shown}")
    best, other, *_ = _rank(b"".join(line for _, line in others.lines), NARROW)
    if not best.is_plausible:
        raise ReadOptionError(f"{where} is not UTF-8; the text is damaged or has an unknown encoding", "encoding")
    if best.language not in OWN_LANGUAGES or other.cost - best.cost < MARGIN:
        where, line = next(each for each in others.lines if best.read(each[1]) != other.read(each[1]))
        shown = f"{best.show(line)}, {other.show(line)}"
        raise ReadOptionError(f"{where} is not UTF-8, and its encoding is not certain: {shown}", "encoding")
    if mixed := next((where for where, line in utf8.lines if _is_rather_utf8(line, best.encoding)), None):
        raise DataError(f"{mixed} is UTF-8, but {where} is not; convert the whole text to UTF-8")
    for where, line in (*others.lines, *others.last):
        _check_same(where, line, best.encoding)
    return best.encoding


def _check_same(where: str, line: bytes, encoding: str) -> None:
    """Raise DataError for a line that is no likely text in the text's `encoding`, but a likely one in another."""
    text = _decode(line, encoding)
    if text is None:  # its reader names the byte
        return
    cost, language = most_likely_language(text, NARROW[encoding])
    own = Reading(cost, encoding, language, text)
    if own.costs_at_most(USUAL_COST):  # other readings take time
        return
    best = min([own, *_rank(line, OWN if own.is_plausible else NARROW)])
    if best.cost + (LINE_MARGIN if own.is_plausible else MARGIN) < own.cost:
        raise DataError(
            f"{where} is not {encoding}, but other lines are: {best.show(line)}; convert the whole text to UTF-8"
        )


def _rank(sample: bytes, encodings: Mapping[str, Sequence[str]]) -> list[Reading]:
    """Return the different readings of a sample, the most likely first; in some, invalid bytes are replaced."""
    found: dict[str, Reading] = {}
    for encoding, languages in encodings.items():
        if (text := sample[:SAMPLE_SIZE].decode(encoding, "replace")) not in found:
            cost, language = most_likely_language(text, languages)
            found[text] = Reading(cost + RARE_COST * (encoding in RARE), encoding, language, text)
    return sorted(found.values())


def _is_rather_utf8(line: bytes, encoding: str) -> bool:
    """Return whether a line that is valid UTF-8 is clearly more likely to be UTF-8 than to have `encoding`."""
    text = _decode(line, encoding)
    if text is None:
        return True
    utf8, other = (most_likely_language(each, OWN_LANGUAGES)[0] for each in (line.decode(), text))
    return utf8 + MARGIN < other


def _decode(data: bytes, encoding: str) -> str | None:
    """Decode the bytes, or return None if they have another encoding."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None
