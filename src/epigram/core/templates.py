"""Jinja templates of HTML pages."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from epigram.core.masking import masked_value


def environment(package: str) -> Environment:
    """Return the environment of the `templates` of `package`: values are masked and escaped, unknown names errors."""
    folder = files(package).joinpath("templates")
    return Environment(
        autoescape=True,
        finalize=masked_value,
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
