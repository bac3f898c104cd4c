"""Tests of edits of a YAML text: only the lines whose values change, whatever the style of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.core.config_types import parse_yaml
from epigram.core.yaml_edit import edit, with_comment

TEXT = """\
# settings
dataset: a          # a name: of a file
seeds: [0]

views:              # one per tokenization
  token: {tokenizer: token}   # words
  # a comment: about the next
  # and one more
  spelled: {tokenizer: token, characters: true}

systems:
  svm: {view: token}
  mhal:             # with settings
    view: spelled
    train:
      epochs: 2     # few

      rate: 1e-3
  # the last comment
train: {}           # nothing
"""


def changed(text: str, path: str, value: Any) -> dict[str, Any]:
    """Return the value of `text` with one changed, or removed if `value` is ..."""
    values: dict[str, Any] = parse_yaml(text)
    *parts, last = path.split(".")
    place = values
    for part in parts:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        ("dataset", "评论", "dataset: a ", "dataset: 评论 "),
        ("dataset", "no", "dataset: a ", "dataset: 'no' "),
        ("dataset", 7, "dataset: a ", "dataset: 7 "),
        ("dataset", "1e3", "dataset: a ", "dataset: '1e3' "),
        ("dataset", "0o17", "dataset: a ", "dataset: '0o17' "),
        ("dataset", "a: b #c", "dataset: a ", "dataset: 'a: b #c' "),
        ("seeds", [0, 1], "seeds: [0]", "seeds: [0, 1]"),
        ("seeds", None, "seeds: [0]", "seeds: null"),
        ("views.token.tokenizer", "wordpiece", "{tokenizer: token}   #", "{tokenizer: wordpiece}   #"),
        ("views.token.prompt", True, "{tokenizer: token}   #", "{tokenizer: token, prompt: true}   #"),
        ("views.spelled.characters", ..., "{tokenizer: token, characters: true}", "{tokenizer: token}"),
        ("views.spelled", ..., "  spelled: {tokenizer: token, characters: true}\n", ""),
        ("views.new", {"a": 1}, "characters: true}\n", "characters: true}\n  new: {a: 1}\n"),
        ("systems.svm", ..., "  svm: {view: token}\n", ""),
        ("systems.mhal.train.epochs", 3, "epochs: 2 ", "epochs: 3 "),
        ("systems.mhal.train.epochs", ..., "      epochs: 2     # few\n", ""),
        ("systems.mhal.train.more", [1], "      rate: 1e-3\n", "      rate: 1e-3\n      more: [1]\n"),
        (
            "systems.mhal.train",
            {"x": 0.5},
            "    train:\n      epochs: 2     # few\n\n      rate: 1e-3\n",
            "    train: {x: 0.5}\n",
        ),
        (
            "systems.mhal",
            ...,
            "  mhal:             # with settings\n    view: spelled\n    train:\n      epochs: 2     # few\n"
            "\n      rate: 1e-3\n",
            "",
        ),
        ("systems.new", {"view": "token"}, "rate: 1e-3\n", "rate: 1e-3\n  new: {view: token}\n"),
        ("train.epochs", 2, "train: {} ", "train: {epochs: 2} "),
        ("prune", {"rule": "x"}, "nothing\n", "nothing\nprune: {rule: x}\n"),
        ("train", ..., "train: {}           # nothing\n", ""),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_changed_lines_are_written(path: str, value: Any, before: str, after: str, newline: str) -> None:
    assert TEXT.count(before) == 1
    values = changed(TEXT, path, value)
    text, expected = TEXT.replace("\n", newline), TEXT.replace(before, after).replace("\n", newline)
    assert edit(text, values) == expected
    assert parse_yaml(expected) == values


def test_an_unchanged_value_leaves_the_text() -> None:
    assert edit(TEXT, parse_yaml(TEXT)) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {k: 1}\nb: *x\nc: 1  # comment",
        "a: &x\n  k: 1\nb:\n  <<: *x\n  j: 2",
        "? a\n: 1\n? b\n: {c: 2}",
        "a: |\n  two\n  lines\n# comment\nb: >\n  folded\n",
        "{a: 1, b: [x, y]}  # comment",
        "a:\nb:  # nothing\nc: ''",
        "a:\n- 1\n- b: 2\n  c: 3\n# comment\nb: 1",
        "---\na: 1\n...\n",
        "# only a comment\n",
        "",
        "\ufeffa: 1\nb: 2",
        "'quoted key': 1\n\"b\": {\"c\": 'd'}",
        "yes: 1\n3: 2\n1.5: {x: y}",
        "a: 2020-01-01\nb: !!str 3",
    ],
)
def test_every_style_of_yaml_has_the_values_afterwards(text: str) -> None:
    old = parse_yaml(text)
    wanted: list[Any] = [{}, {"z": [1, {"y": "好"}]}, {"a": "new"}]
    for key in old or ():
        rest = {name: value for name, value in old.items() if name != key}
        wanted += [rest, {**old, key: 0.5}, {**old, key: {"n": 1}}, {key: old[key], **rest}]
        if isinstance(old[key], dict):
            wanted += [{**old, key: {**old[key], "n": None}}, {**old, key: {"n": 1, **old[key]}}]
    for values in wanted:
        found = parse_yaml(edit(text, values))
        assert found == values and list(found) == list(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s:\n  a: {x: 1}\n  b: 2\n", "s:\n  a: {x: 1}   # why\n  b: 2\n"),
        ("s:\n  a: {x: 1}  # mine\n", "s:\n  a: {x: 1}  # mine   # why\n"),
        ("s:\r\n  a: 1\r\n", "s:\r\n  a: 1   # why\r\n"),
        ("s: {a: 1, b: 2}", "s: {a: 1, b: 2}   # why"),
        ("s:\n  a:\n    x: 1\nt: 3\n", "s:\n  a:\n    x: 1   # why\nt: 3\n"),
    ],
)
def test_a_comment_is_at_the_end_of_the_line_of_its_entry(text: str, expected: str) -> None:
    assert with_comment(text, "s", "a", "why") == expected
    assert parse_yaml(expected) == parse_yaml(text)
