"""Hooks of the documentation's site: links to files outside of docs, and the reference of commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from epigram.cli.app import cli

DOCS = Path(__file__).parent
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
COMMANDS = "<!-- commands -->"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files outside of docs by their paths, and insert the help of each command."""
    folder = (DOCS / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return match[0]
        path = target.relative_to(DOCS.parent).as_posix()
        return f"`{path}`" if path == match[1] else f"{match[1]} (`{path}`)"

    return LINK.sub(replaced, markdown).replace(COMMANDS, _reference())


def _reference() -> str:
    """Return the help text of every command, each below a heading."""
    group: Any = typer.main.get_command(cli)
    parts = []
    for name, command in group.commands.items():
        context = command.make_context(f"epigram {name}", [], resilient_parsing=True)
        parts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)
