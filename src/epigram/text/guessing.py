"""Detection of the encoding of a text from its first bytes."""

from __future__ import annotations

import codecs
from collections.abc import Callable

SAMPLE_SIZE = 1 << 20  # bytes that are examined
BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
MIN_COMMON_SHARE = 0.8  # minimum share of common characters among the non-ASCII ones of a Chinese text


def guess(data: bytes) -> str:
    """Return the most likely encoding of a text's first bytes, or "" if none is likely."""
    for mark, name in BOMS:
        if data.startswith(mark):
            return name
    if data.count(b"\0") > len(data) // 10:
        odd = data[1::2].count(b"\0") > data[::2].count(b"\0")
        return "utf-16-le" if odd else "utf-16-be"
    for name, is_likely in (
        ("utf-8", _is_any_text),
        ("gbk", _is_simplified_chinese),
        ("gb18030", _is_simplified_chinese),
        ("big5", _is_traditional_chinese),
    ):
        if (text := _decode_prefix(data, name)) is not None and is_likely(text):
            return name
    if b"\0" in data:
        return ""
    windows = any(0x80 <= byte < 0xA0 for byte in data)
    return "cp1252" if windows and _decode_prefix(data, "cp1252") is not None else "latin-1"


def _decode_prefix(data: bytes, encoding: str) -> str | None:
    """Decode the bytes, except a character cut off at the end of the sample; None if they have another encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        return decoder.decode(data, len(data) < SAMPLE_SIZE)
    except UnicodeDecodeError:
        return None


def _is_any_text(text: str) -> bool:
    return True


def _is_simplified_chinese(text: str) -> bool:
    """Return whether most non-ASCII characters are symbols or level 1 characters of GB 2312."""
    return _has_common_characters(
        text, "gb2312", lambda lead, trail: lead in range(0xA1, 0xA4) or lead in range(0xB0, 0xD8)
    )


def _is_traditional_chinese(text: str) -> bool:
    """Return whether most non-ASCII characters are symbols or level 1 characters of Big5."""
    return _has_common_characters(text, "big5", lambda lead, trail: lead in range(0xA1, 0xC7))


def _has_common_characters(text: str, encoding: str, is_common: Callable[[int, int], bool]) -> bool:
    non_ascii = [character for character in text if ord(character) > 0x7F]
    pairs = [character.encode(encoding, "ignore") for character in non_ascii]
    common = sum(len(pair) == 2 and is_common(*pair) for pair in pairs)
    return bool(non_ascii) and common >= MIN_COMMON_SHARE * len(non_ascii)
