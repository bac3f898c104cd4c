"""Jinja templates of HTML pages."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def environment(package: str) -> Environment:
    """Return the environment of the `templates` of `package`: values are escaped, and an undefined name is an error."""
    folder = files(package).joinpath("templates")
    return Environment(
        autoescape=True,
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
