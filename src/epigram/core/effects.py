"""Notes beside settings that have an effect in some combinations only, and the function that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, get_type_hints

ABSENT = object()


class Only:
    """Note that a setting has an effect only if `name` has one of `values`: `Annotated[int, Only("order", "random")]`.

    `name` is another setting of the same section, or an attribute of a section, such as `head.kind` or `data.multi`. A
    section without it does not deprive the setting of its effect. `because`, which may contain attributes such as
    `{head.kind}`, replaces the reason "NAME is VALUE". With `when`, a name and its values, the note applies only if
    that name has one of them, too.
    """

    effective: ClassVar[bool] = True  # whether the setting has an effect with `values`, or with all other values

    def __init__(
        self, name: str, *values: Any, because: str | None = None, when: tuple[Any, ...] | None = None
    ) -> None:
        self.name, self.values, self.because, self.when = name, values, because, when

    def reason(self, settings: Any, path: str, sections: Mapping[str, Any]) -> str | None:
        """Return why a setting of `settings`, the section `path`, has no effect; None if this note does not say so."""
        value = _value(self.name, settings, sections)
        if value is ABSENT or (value in self.values) is self.effective:
            return None
        if self.when is not None and _value(self.when[0], settings, sections) not in self.when[1:]:
            return None
        key = self.name if "." in self.name else f"{path}.{self.name}"
        return self.because.format(**sections) if self.because else f"{key} is {value!r}"


class Unless(Only):
    """Note that a setting has an effect unless `name` has one of `values`."""

    effective: ClassVar[bool] = False


def unused(settings: Any, path: str, sections: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings without effect: key, such as `encoder.site`, → reason.

    `settings` are the dataclass of the section `path`, whose notes name attributes of `sections`. Settings may have an
    attribute `nested` with the typed settings of their sub-sections by name.
    """
    found: dict[str, str] = {}
    for name, notes in notes_of(settings.__class__).items():
        reasons = (note.reason(settings, path, sections) for note in notes)
        if reason := next(filter(None, reasons), None):
            found[f"{path}.{name}"] = reason
    for name, part in getattr(settings, "nested", {}).items():
        if f"{path}.{name}" not in found:
            found |= unused(part, f"{path}.{name}", sections)
    return found


@cache
def notes_of(kind: Any) -> dict[str, tuple[Only, ...]]:
    """Return the notes of the settings of a dataclass that have any."""
    hints = get_type_hints(kind, include_extras=True)
    notes = {each.name: getattr(hints[each.name], "__metadata__", ()) for each in fields(kind)}
    found = {name: tuple(note for note in given if isinstance(note, Only)) for name, given in notes.items()}
    return {name: given for name, given in found.items() if given}


def _value(name: str, settings: Any, sections: Mapping[str, Any]) -> Any:
    section, _, attribute = name.rpartition(".")
    return getattr(sections.get(section) if section else settings, attribute, ABSENT)
