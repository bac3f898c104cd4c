"""Settings from any source are typed or rejected with a line that names the key; names cannot reach a shell."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from epigram.cli.options import parse_change
from epigram.core.config_types import has_type, nearest, parse_json, parse_yaml, shown, validate_as
from epigram.core.errors import EpigramError, ParameterError
from epigram.core.settings import check_names
from epigram.data.sources.access import redact_address
from epigram.data.sources.source import Source, read_source
from epigram.runner.workspace.overrides import apply
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import Settings, load
from tests.support.budget import cases, texts

ROOT = Path(__file__).parents[2]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | texts
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
SECRET = "hunter2"
SHELL = set(" \t\n\r;&|<>$`'\"\\()[]{}*?!#~=%^\0/")


@cache
def valid(name: str) -> str:
    return json.dumps(yaml.safe_load((ROOT / name).read_text()))


def changed(data: st.DataObject, name: str) -> dict[str, Any]:
    """Return a valid document with another value in one position."""
    document = [json.loads(valid(name))]
    holder, key = document, 0
    while isinstance(holder[key], dict | list) and holder[key] and data.draw(st.integers(0, 4)):
        holder = holder[key]
        key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
    if isinstance(holder, dict) and not data.draw(st.integers(0, 3)):
        key = data.draw(texts)
    holder[key] = data.draw(JSON)
    return document[0]


def one_line(error: EpigramError, *named: str) -> None:
    for line in str(error).splitlines():
        assert line.isprintable()
        assert len(line) < 9_000
    assert any(name in str(error).partition("\n")[0] for name in named)


@cases(750)
@given(st.data())
def test_params_are_typed_or_refused_by_key(data: st.DataObject) -> None:
    values = changed(data, "params.yaml")
    try:
        settings = validate_as(Settings, values)
        check_names(values)
    except ParameterError as error:
        one_line(error, "params.yaml")
    else:
        assert set(settings.systems) == set(values["systems"])
        assert settings.seeds == [int(seed) for seed in values["seeds"]]
        assert 0 < settings.compare.alpha < 1


@cases(400)
@given(st.data())
def test_a_source_is_typed_or_refused_by_key(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "source.json"
    path.write_text(json.dumps(changed(data, "data/sources/mr.yaml")), encoding="utf-8")
    try:
        source = read_source(path)
    except EpigramError as error:
        one_line(error, "source.json")
    else:
        assert isinstance(source, Source)
        for file in source.files:
            assert (tmp_path / file.path).resolve().is_relative_to(tmp_path.resolve())


@cases(150)
@given(st.data())
def test_a_params_file_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(changed(data, "params.yaml"), allow_unicode=data.draw(st.booleans())))
    try:
        assert load(path).views
    except EpigramError as error:
        one_line(error, "params.yaml")


@cases(600)
@given(JSON)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    again = parse_json(json.dumps(value))
    assert repr(again) == repr(value)


@cases(750)
@given(
    st.lists(
        st.sampled_from(
            [
                *'[]{}:,"&*!|>-?%@`#\n \t\\',
                "a",
                "1",
                "!!",
                "date",
                "2024-99-99",
                "*a",
                "&a",
                "\\ud800",
                "1e",
                ".inf",
                "\0",
                "<<",
            ]
        ),
        max_size=14,
    ).map("".join)
)
def test_any_text_is_yaml_and_json_or_a_value_error(text: str) -> None:
    for parse in (parse_yaml, parse_json):
        try:
            value = parse(text)
        except ValueError as error:
            assert "\n" not in str(error)
        else:
            repr(value).encode()


@pytest.mark.parametrize(
    "text", ["!!bool x", "!!int x", "!!timestamp x", "!!set [a]", "? [a]\n: b", "[" * 9_000, "2024-99-99"]
)
def test_yaml_that_is_not_what_it_says(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


def test_aliases_do_not_blow_up() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    with pytest.raises(ValueError, match="has more than"):
        parse_yaml(bomb)
    with pytest.raises(ValueError, match="alias that contains itself"):
        parse_yaml("&a [*a]")


@cases(600)
@given(JSON)
def test_a_value_fits_its_own_kind(value: Any) -> None:
    kinds: dict[Any, type] = {
        int: int,
        str: str,
        bool: bool,
        float: float,
        list[Any]: list,
        dict[str, Any]: dict,
        None | int: int,
    }  # type: ignore[dict-item]
    for hint, kind in kinds.items():
        wanted = (
            type(value) is kind or (hint is float and type(value) is int) or (hint == (None | int) and value is None)
        )
        assert has_type(value, hint) is wanted
    assert has_type([value], list[Any])
    assert has_type({"a": value}, dict[str, Any])


@cases(900)
@given(st.text(st.sampled_from("ab9.-_/;$`'\"()\\ \n&|<>~*?!#文é"), max_size=6) | texts)
def test_a_name_that_is_taken_is_safe_in_a_shell_and_a_path(name: str) -> None:
    documents: list[dict[str, Any]] = [
        {"dataset": name},
        {"views": {name: {}}},
        {"systems": {name: {}}},
        {"systems": {"a": {"view": name}}},
    ]
    taken = 0
    for document in documents:
        try:
            check_names(document)
        except ParameterError as error:
            one_line(error, "params.yaml")
        else:
            taken += 1
    assert taken in {0, 4}
    if taken:
        assert SHELL.isdisjoint(name)
        assert shlex.split(f"x {name}", posix=True) == ["x", name]
        assert len(PurePosixPath(name).parts) == 1
        assert not name.startswith(("-", "."))


@cases(600)
@given(st.text(max_size=6) | texts, st.sampled_from(["dataset", "revision", "systems"]))
def test_a_request_from_anywhere_has_names_or_is_refused(name: str, part: str) -> None:
    try:
        request = Request(root=ROOT, **{part: (name,) if part == "systems" else name})  # type: ignore[arg-type]
    except ParameterError as error:
        assert "\n" not in str(error)
    else:
        assert request.isolated is bool(name) or part == "systems"
        assert not name.startswith("-")
        assert part == "revision" or SHELL.isdisjoint(name)


@cases(750)
@given(
    st.sampled_from(["", "seeds", "a.b", "views.token.prompt", "systems.x", ".", "train..x"]),
    st.sampled_from(["=", "==", ""]),
    st.lists(
        st.sampled_from([*"[]{}:,'\"!&*#- \t\n", "1", "true", "null", "2024-99-99", "!!bool", "x"]), max_size=8
    ).map("".join)
    | texts,
)
def test_a_change_of_the_command_line_is_taken_or_refused(key: str, equals: str, value: str) -> None:
    try:
        name, found = parse_change(f"{key}{equals}{value}")
        params = json.loads(valid("params.yaml"))
        apply(params, Request(root=ROOT, changes={name: found}))
        check_names(params)
        validate_as(Settings, params)
    except ParameterError as error:
        one_line(error, "params.yaml", "--set")


@cases(750)
@given(st.sampled_from(["postgresql", "https", "http", "sqlite", "ftp"]), texts, texts, texts)
def test_no_secret_of_an_address_is_shown(scheme: str, before: str, after: str, path: str) -> None:
    addresses = [
        f"{scheme}://user:{before}{SECRET}{after}@host/{path}",
        f"{scheme}://host/{path.replace('@', '')}?{before}{SECRET}{after}",
        f"{scheme}://:{SECRET}@host/{path}?token={SECRET}",
        f"{scheme}://host/{path.replace('@', '')}#token={SECRET}",
    ]
    for address in addresses:
        assert SECRET not in redact_address(address)
    plain = path.replace("?", "").replace("#", "")
    assert redact_address(f"https://host/x@1/{plain}") == f"https://host/x@1/{plain}"


@cases(550)
@given(texts | st.text(), st.lists(texts | st.text(min_size=60), max_size=5))
def test_names_in_messages_are_one_line(name: str, allowed: list[str]) -> None:
    assert nearest(name, allowed).isprintable()
    assert shown(name).isprintable()
    assert len(shown(name)) < 900
