"""Labels that are paths: their parts, the separators that are refused, and the note on labels that look like paths."""

from __future__ import annotations

import pytest

from epigram.core.errors import ParameterError
from epigram.core.label_paths import check_hierarchy, hierarchy_notes, label_path, level_names


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("goods/phone", ("goods", "phone")),
        ("goods / phone/", ("goods", "phone")),
        ("/goods", ("goods",)),
        ("/", ("/",)),
        ("goods > phone", ("goods > phone",)),
    ],
)
def test_empty_parts_and_spaces_do_not_count(label: str, parts: tuple[str, ...]) -> None:
    assert label_path(label, "/") == parts


def test_the_name_on_a_level_is_the_first_parts_or_the_label_itself() -> None:
    labels = ["goods / phone", "goods/desk/oak", "goods", "food//fruit"]
    found = [[*level_names(labels, "/", level).values()] for level in (1, 2, 3)]
    assert found == [
        ["goods", "goods", "goods", "food"],
        ["goods / phone", "goods/desk", "goods", "food//fruit"],
        labels,
    ]


def test_a_separator_that_no_label_contains_is_refused() -> None:
    check_hierarchy("/", ["a/b", "c"], "hierarchy")
    check_hierarchy("", ["a"], "hierarchy")
    with pytest.raises(ParameterError, match=r"^hierarchy is '>', which no label contains \(a/b, c\); expected the"):
        check_hierarchy(">", ["a/b", "c"], "hierarchy")


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        (["goods/phone", "goods/desk", "food/fruit"], "/"),
        (["goods > phone", "goods > desk"], ">"),
        ([*(f"goods/{number}" for number in range(9)), "other"], "/"),
        ([*(f"goods/{number}" for number in range(8)), "other", "more"], ""),
        (["goods/phone", "food/fruit"], ""),
        (["1/5", "n/a", "a/"], ""),
        (["pos", "neg"], ""),
    ],
)
def test_a_note_offers_levels_if_most_labels_have_them_and_two_share_the_first(
    labels: list[str], separator: str
) -> None:
    notes = hierarchy_notes(labels)
    assert len(notes) == bool(separator)
    if notes:
        assert f"--hierarchy '{separator}' scores each level" in notes[0]
        assert f"such as {labels[0]!r}, {labels[1]!r}" in notes[0]
