"""Safe display of text from outside: printed, as JSON, and as Markdown."""

from __future__ import annotations

import json
import os
import re
import select
import sys
from pathlib import Path
from typing import Any, TextIO

from epigram.core.masking import masked

# Control characters except tab and line feed, and marks that reverse the text direction.
CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
# Terminal escape sequences: colours and cursor (CSI), titles and links (OSC and other strings), then the rest.
UNPRINTABLE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    rf"|(?:\x1b[\]P_^X]|[\x90\x98\x9d-\x9f])[^{CONTROL}\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    rf"|[{CONTROL}\ud800-\udfff]"
)
CONTROL_CHARACTER = re.compile(f"[{CONTROL}]")
LINE_END = re.compile("[\n\r\u2028\u2029]")
INLINE_MARKER = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")  # inline formatting; not the underscore of a_b
AUTOLINK = re.compile(r":(?=//)|@|(?<=www)\.", re.IGNORECASE)  # Markdown turns addresses into links
BLOCK_MARKER = re.compile(r"^(\d*)([-+=#.)]+)(?=\s|$)")  # heading, list, rule


def printable(text: str) -> str:
    """Return `text` masked, without control characters and terminal escape sequences; tabs and line feeds are kept.

    A surrogate, for example from a file name that is not UTF-8, is shown as its escape (`\\udc80`).
    """
    shown = UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1] if "\ud800" <= match[0] <= "\udfff" else "", text)
    return masked(shown)


def one_line(text: str) -> str:
    """Return `text` with its line ends as escapes (`\\n`), so that no part of it is printed as a line of its own."""
    return LINE_END.sub(lambda match: ascii(match[0])[1:-1], text)


def echo(text: object, *, file: TextIO | None = None, before: str = "", end: str = "\n", flush: bool = False) -> None:
    """Print `text` after removing unprintable characters; `before` and `end` are printed unchanged.

    All output of epigram is printed by this function.
    """
    print(f"{before}{printable(str(text))}{end}", end="", file=file, flush=flush)


def is_output_closed() -> bool:
    """Return whether stdout is a pipe whose reader has ended, for example `head`."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # only errors
    return bool(poll.poll(0))


def discard_output() -> None:
    """Discard what is still to be written to stdout."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def json_text(value: Any, indent: int | None = None) -> str:
    """Return `value` as JSON that `printable` does not change: control characters are escaped, not removed.

    Line feeds between values are no control characters.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return CONTROL_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_markdown(text: str) -> str:
    """Return `text` as one line of Markdown that renders literally, without formatting, HTML, links or images."""
    line = " ".join(printable(text).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = AUTOLINK.sub(r"\\\g<0>", INLINE_MARKER.sub(r"\\\g<0>", line))
    return BLOCK_MARKER.sub(r"\1\\\2", line)
