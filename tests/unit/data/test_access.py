"""Tests of source access: a source reads only the variables, files and secrets that the user allows."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.core.errors import ParameterError, SourceUnavailableError
from epigram.data.readers.json_files import JsonFiles
from epigram.data.sources import sql_and_hub
from epigram.data.sources.access import is_safe_path, mask_secrets, network_zone, redact_address
from epigram.data.sources.source import read_source
from epigram.data.sources.sql_and_hub import write_table
from epigram.runner.workspace.settings import load

SECRET = "hunter2"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Collect the address and environment of each query that the driver gets; the project folder is empty."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.delenv("EPIGRAM_SOURCE_VARIABLES", raising=False)
    seen: list[dict[str, Any]] = []

    def read(query: str, uri: str, **_: Any) -> pl.DataFrame:
        seen.append({"uri": uri, "environment": dict(os.environ)})
        return pl.DataFrame({"text": ["a"]})

    monkeypatch.setattr(pl, "read_database_uri", read)
    return seen


def table(address: str) -> None:
    write_table(address, "SELECT 1", Path("out.parquet"))


def test_a_variable_that_is_not_allowed_is_not_read(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("REVIEWS", "postgresql://me@127.0.0.1/reviews")
    monkeypatch.setenv("EPIGRAM_SOURCE_VARIABLES", "REVIEWS, OTHER")
    words = r"AWS_SECRET_ACCESS_KEY, which is not allowed; .* EPIGRAM_SOURCE_VARIABLES=OTHER,REVIEWS,AWS_SECRET"
    with pytest.raises(ParameterError, match=words) as caught:
        table("postgresql://x@host/${AWS_SECRET_ACCESS_KEY}")
    assert SECRET not in str(caught.value)
    assert asked == []
    table("${REVIEWS}")
    assert [each["uri"] for each in asked] == ["postgresql://me@127.0.0.1/reviews"]
    with pytest.raises(ParameterError, match="variable OTHER is not set"):
        table("${OTHER}")


def test_nothing_is_allowed_by_default(asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVIEWS", "postgresql://me@127.0.0.1/reviews")
    with pytest.raises(ParameterError, match="EPIGRAM_SOURCE_VARIABLES=REVIEWS in your environment"):
        table("${REVIEWS}")


def test_drivers_see_no_credentials_but_those_that_are_allowed(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPASSWORD", "PGPASSFILE", "HF_TOKEN", "HF_HOME", "PATH_OF_MINE"):
        monkeypatch.setenv(name, SECRET)
    before = dict(os.environ)
    table("postgresql://evil.example/db")
    monkeypatch.setenv("EPIGRAM_SOURCE_VARIABLES", "PGPASSWORD,HF_TOKEN")
    table("postgresql://mine.example/db")
    assert dict(os.environ) == before | {"EPIGRAM_SOURCE_VARIABLES": "PGPASSWORD,HF_TOKEN"}
    known = [{name for name, value in each["environment"].items() if value == SECRET} for each in asked]
    assert known == [{"PATH_OF_MINE"}, {"PATH_OF_MINE", "PGPASSWORD", "HF_TOKEN"}]
    assert asked[0]["environment"]["HF_HOME"] == os.devnull


def test_the_hub_is_asked_without_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str | None] = []

    def scan(address: str) -> pl.LazyFrame:
        seen.append(os.environ.get("HF_TOKEN"))
        raise OSError(f"{address} has no answer")

    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setitem(sql_and_hub.SCANNERS, ".parquet", scan)
    with pytest.raises(SourceUnavailableError) as caught:
        write_table("hf://datasets/a/b@1/x.parquet", None, tmp_path / "out")
    assert seen == [None]
    assert "hf://datasets/a/b@1/x.parquet cannot be read" in str(caught.value)


@pytest.mark.parametrize("mark", ["?token=", "#token="])
def test_a_token_of_the_hub_is_not_shown(tmp_path: Path, mark: str) -> None:
    """The suffix is part of the token, so polars is not called."""
    with pytest.raises(ParameterError, match="unsupported file type") as caught:
        write_table(f"hf://datasets/a/b@1/x.parquet{mark}{SECRET}", None, tmp_path / "out")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:////etc/app.db",
        "sqlite:///../outside.db",
        "sqlite:///data/../../outside.db",
        "sqlite:///%2e%2e/outside.db",
        "sqlite:///${PLACE}/../outside.db",
        "${PROJECT}/../outside.db",
    ],
)
def test_a_database_outside_the_project_is_not_opened(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PLACE", str(Path.cwd()))
    monkeypatch.setenv("PROJECT", f"sqlite:///{Path.cwd()}")
    monkeypatch.setenv("EPIGRAM_SOURCE_VARIABLES", "PLACE,PROJECT")
    sqlite3.connect(Path.cwd().parent / "outside.db").close()
    with pytest.raises(ParameterError, match="outside of the project"):
        table(address)
    assert asked == []


def test_the_driver_opens_the_file_that_was_checked(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite reads a path that begins with `file:` as a URI; in other paths, `?` is part of the file name."""
    Path("file:").mkdir()
    for name in ("a b.db", "file:/x.db"):
        Path(name).touch()
    table("sqlite:///a%20b.db?mode=ro")
    table("sqlite:///file:/x.db")
    monkeypatch.setenv("ANYWHERE", f"sqlite:///{Path.cwd().parent / 'mine.db'}")
    (Path.cwd().parent / "mine.db").touch()
    monkeypatch.setenv("EPIGRAM_SOURCE_VARIABLES", "ANYWHERE")
    table("${ANYWHERE}")
    here = Path.cwd()
    assert [each["uri"] for each in asked] == [
        f"sqlite:///file:{here}/a%20b.db?mode=ro",
        f"sqlite:///file:{here}/file%3A/x.db?mode=ro",
        f"sqlite:///file:{here.parent}/mine.db?mode=ro",
    ]


@pytest.mark.parametrize("parameter", ["passfile", "sslkey", "SSLCERT", "service", "%73slkey"])
def test_a_database_address_names_no_local_files(asked: list[dict[str, Any]], parameter: str) -> None:
    with pytest.raises(ParameterError, match="parameters that name local files"):
        table(f"postgresql://host/db?{parameter}=/home/me/.ssh/id_rsa")
    assert asked == []


def test_a_list_of_files_is_one_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x.json\n")
    (tmp_path / "raw").mkdir()
    for name in ("../secret", str(tmp_path / "secret")):
        with pytest.raises(ParameterError, match=r"read\.lists\.a is .*; expected the path of a file of the source"):
            list(JsonFiles(lists={"a": name}).read(tmp_path / "raw" / "x.tar"))


@pytest.mark.parametrize("name", ["", ".", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a\0b", "a\nb"])
def test_names_that_leave_their_folder(name: str) -> None:
    assert not is_safe_path(name)
    assert is_safe_path("set/train.csv.gz") and is_safe_path("好.txt")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"https://host/x?token={SECRET}", "https://host/x"),
        (f"https://host/x#token={SECRET}", "https://host/x"),
        (f"https://host#{SECRET}?x", "https://host"),
        (f"https://user:{SECRET}@host/x", "https://***@host/x"),
        (f"https://{SECRET}@host/x", "https://***@host/x"),
        (f"postgresql://user:a/{SECRET}#?b@host/x", "postgresql://***@host/x"),
        (f"user:{SECRET}@host/x", "***@host/x"),
        (f"hf://datasets/a/b@1/x.csv?token={SECRET}", "hf://datasets/a/b@1/x.csv"),
        (f"hf://user:{SECRET}@datasets/a/b/x.csv", "hf://***@datasets/a/b/x.csv"),
        (f"hf://{SECRET}@datasets/a/b/x.csv#t", "hf://***@datasets/a/b/x.csv"),
        ("hf://datasets/a/b@1/x.csv", "hf://datasets/a/b@1/x.csv"),
        ("https://host:8080/x", "https://host:8080/x"),
    ],
)
def test_addresses_are_shown_without_secrets(address: str, shown: str) -> None:
    assert redact_address(address) == shown


def test_secrets_are_cut_out_of_the_words_of_others() -> None:
    address = "hf://me:pass%20word@datasets/x.csv?token=t1&other=o2#access=a3"
    words = "no answer of me with pass word or pass%20word, t1, o2 and a3"
    assert mask_secrets(words, address) == "no answer of *** with *** or ***, ***, *** and ***"


def test_a_value_of_the_wrong_type_shows_no_address(tmp_path: Path) -> None:
    address = f"postgresql://me:{SECRET}@host/reviews"
    toy = "name: toy\nabout: toy\nlanguage: en\ntask: single\nlicence: none\nfiles:\n- path: x\n"
    (tmp_path / "toy.yaml").write_text(f"{toy}  url: {{a: '{address}'}}\n")
    (tmp_path / "params.yaml").write_text(
        f"dataset: toy\nseeds: [0]\nviews: {{}}\nsystems: {{}}\nretrain: {{database: '{address}'}}\n"
    )
    for name, read in (("toy.yaml", read_source), ("params.yaml", load)):
        with pytest.raises(ParameterError, match=r"is a value with a URL \(not shown\)") as caught:
            read(tmp_path / name)  # type: ignore[operator]
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "nearness"),
    [
        ("::127.0.0.1", 2), ("64:ff9b::7f00:1", 2), ("64:ff9b::a00:1", 1), ("2002:7f00:1::", 2), ("2002:a00:1::", 1),
        ("::ffff:0:a00:1", 1), ("224.0.0.1", 1), ("::1", 2), ("::", 2), ("8.8.8.8", 0), ("64:ff9b::808:808", 0),
        ("2606:4700::1111", 0),
    ],
)  # fmt: skip
def test_an_ipv4_address_inside_an_ipv6_address_counts(host: str, nearness: int) -> None:
    assert network_zone(host) == nearness
