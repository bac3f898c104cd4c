"""Checks of YAML nodes before values are built: duplicate keys, and the number of values with aliases expanded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MAX_VALUES = 100_000  # maximum number of values in a YAML text
MERGE_TAG = "tag:yaml.org,2002:merge"


def parse(text: str) -> Any:
    """Return the value of a YAML text (plain values only).

    Raises ValueError for a duplicate key and for too many values, before they are built, and the errors of PyYAML.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count_values(node, loader, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count_values(node: yaml.Node, loader: yaml.SafeLoader, sizes: dict[int, int]) -> int:
    """Return the number of values that `node` expands to; `sizes` caches it by node id, 0 while it is being counted."""
    if id(node) not in sizes:
        sizes[id(node)] = 0
        sizes[id(node)] = 1 + sum(_count_values(child, loader, sizes) for child in _children(node, loader))
    size = sizes[id(node)]
    if not size or size > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values, or an alias that contains itself")
    return size


def _children(node: yaml.Node, loader: yaml.SafeLoader) -> list[yaml.Node]:
    """Return keys and values of a mapping, or items of a list. Raises ValueError for a duplicate key."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            name = MERGE_TAG if key.tag == MERGE_TAG else loader.construct_object(key)
            if name in seen:
                raise ValueError(f"line {key.start_mark.line + 1}: duplicate key {key.value!r}: remove one")
            seen.add(name)
    return [child for pair in node.value for child in pair]
