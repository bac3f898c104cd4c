"""Edits of a YAML text that a user has written: only the lines whose values change, so that all comments stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from epigram.core import yaml_nodes

if TYPE_CHECKING:
    import yaml

NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$|0o[0-7]+$")
Entries = dict[Any, tuple["yaml.Node", "yaml.Node"]]


class Edit(NamedTuple):
    """Replacement of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def edit(text: str, values: Any) -> str:
    """Return the YAML `text` with the smallest changes after which its value is `values`.

    Entries of mappings are changed, removed and appended in place. A text whose anchors or tags do not allow that is
    written anew.
    """
    import yaml

    old, values = yaml_nodes.parse(text), yaml_nodes.parse(_dump(values))
    edits = [Edit(len(text), len(text), _dump(values))] if old is None else _edits(text, _compose(text), 0, old, values)
    edited = text
    try:
        for each in sorted(edits, reverse=True):
            edited = edited[: each.start] + each.text + edited[each.end :]
        return edited if _same(yaml_nodes.parse(edited), values) else _dump(values)
    except (yaml.YAMLError, ValueError):
        return _dump(values)


def with_comment(text: str, section: str, entry: str, comment: str) -> str:
    """Return the YAML `text` with a comment at the end of the line of an entry of a section."""
    found = _entries(_entries(_compose(text))[section][1])[entry][1]
    end = _end(text, found)
    end += len(text[end : _line_end(text, end)].rstrip())
    return f"{text[:end]}   # {comment}{text[end:]}"


@cache
def _dumper() -> type[yaml.SafeDumper]:
    """Return a dumper that quotes strings such as 1e3, which are numbers in YAML 1.2: DVC reads that version."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))
    return Dumper


def _dump(values: Any, **options: Any) -> str:
    import yaml

    settings = {"sort_keys": False, "allow_unicode": True, "width": 1_000_000, **options}
    return str(yaml.dump(values, Dumper=_dumper(), **settings))


def _inline(value: Any) -> str:
    """Return the value on one line; as an item of a list it has no mark of the document's end."""
    return _dump([value], default_flow_style=True).strip()[1:-1]


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, as are the order of their keys and the types of their numbers."""
    return repr(one) == repr(other)


def _compose(text: str) -> yaml.Node:
    """Return the root node of a text with a value. An alias is a node without entries, at the alias's position."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            alias: Any = None
            if self.check_event(yaml.AliasEvent):
                alias = self.peek_event()  # type: ignore[no-untyped-call]
            node = super().compose_node(parent, index)
            if alias is None or node is None:
                return node
            return yaml.ScalarNode(node.tag, "", alias.start_mark, alias.end_mark)

    loader = Loader(text)
    try:
        root = loader.get_single_node()
        assert root is not None
        return root
    finally:
        loader.dispose()


def _edits(text: str, node: yaml.Node, after: int, old: Any, new: Any) -> Iterator[Edit]:
    """Yield the edits that change the value of `node`, whose key ends at `after`, from `old` to `new`."""
    if _same(old, new):
        return
    if _is_list(node, old, new):
        for item, one, other in zip(node.value, old, new, strict=True):
            yield from _edits(text, item, len(text), one, other)  # an item has no key
        return
    entries = _entries(node) if isinstance(new, Mapping) else {}
    kept, removed = ([key for key in entries if (key in new) is found] for found in (True, False))
    editable = kept and list(new)[: len(kept)] == kept and entries.keys() == old.keys()
    if not editable or (removed and _is_inline(node)):
        yield from _replacement(text, node, after, new)
        return
    for key in kept:
        yield from _edits(text, entries[key][1], entries[key][0].end_mark.index, old[key], new[key])
    for key in removed:
        start, end = entries[key][0].start_mark.index, _end(text, entries[key][1])
        yield Edit(_line_start(text, start), _line_end(text, end), "")
    if added := {key: new[key] for key in new if key not in entries}:
        yield _insertion(text, node, entries, added)


def _is_list(node: yaml.Node, old: Any, new: Any) -> bool:
    """Return whether a list keeps its length, so that its items can be edited in place."""
    import yaml

    return (
        isinstance(node, yaml.SequenceNode) and isinstance(old, list) and isinstance(new, list) and len(old) == len(new)
    )


def _entries(node: yaml.Node) -> Entries:
    """Return the key and the value of each entry of a mapping, by the value of the key; {} for any other node."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return {}
    loader = yaml.SafeLoader("")
    return {loader.construct_object(key): (key, value) for key, value in node.value if key.tag != yaml_nodes.MERGE_TAG}


def _insertion(text: str, node: yaml.Node, entries: Entries, added: Mapping[Any, Any]) -> Edit:
    """Return the edit that adds entries at the end of a mapping: in lines of their own, unless it is on one line."""
    lines = [f"{_inline(key)}: {_inline(value)}" for key, value in added.items()]
    first, last = next(iter(entries.values()))[0], list(entries.values())[-1][1]
    end = _end(text, last)
    if _is_inline(node):
        return Edit(end, end, "".join(f", {line}" for line in lines))
    place, newline = _line_end(text, end), "\r\n" if "\r\n" in text else "\n"
    before = "" if text[place - 1] == "\n" else newline
    return Edit(place, place, before + "".join(f"{' ' * first.start_mark.column}{line}{newline}" for line in lines))


def _replacement(text: str, node: yaml.Node, after: int, new: Any) -> Iterator[Edit]:
    """Yield the edits that write `new` on one line in the place of `node`; a comment next to its key stays."""
    start, end = node.start_mark.index, _end(text, node)
    if _is_inline(node):
        yield Edit(start, end, f"{' ' if text[start - 1 : start] == ':' else ''}{_inline(new)}")
        return
    colon = text.index(":", after) + 1
    yield Edit(colon, colon, f" {_inline(new)}")
    yield Edit(_line_start(text, start), _line_end(text, end), "")


def _is_inline(node: yaml.Node) -> bool:
    """Return whether a node is a scalar or a collection in brackets."""
    return bool(getattr(node, "flow_style", True))


def _end(text: str, node: yaml.Node) -> int:
    """Return where the last value of a node ends; PyYAML's mark of a block's end is after the comments below it."""
    while not _is_inline(node) and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    start = node.start_mark.index
    return int(start + len(text[start : node.end_mark.index].rstrip()))


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """Return the start of the next line."""
    return text.find("\n", place) + 1 or len(text)
