"""Tests of unusable numbers, paths and addresses: each gets a one-line error, never an internal error."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tokenizers import Tokenizer

from epigram.cli import options
from epigram.cli.app import app
from epigram.core.config_types import is_http_url
from epigram.core.errors import DataError, ParameterError, TryAgainError
from epigram.data.sources.fetch import _candidate_addresses
from epigram.data.sources.inspection import _sort_labels
from epigram.data.sources.source import File, read_source
from epigram.data.validation.validate import _sorted_labels
from epigram.process.exits import exit_code, message
from epigram.runner.prefect import ray_address
from epigram.runner.service import database, notices
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import load
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import SPECIALS, word_tokenizer
from epigram.text.tokens.tokenizers import load as load_tokenizer

ROOT = Path(__file__).parents[3]
LARGEST = 2**32 - 1
NOT_WEB = [
    "http://[::1",
    "http://host:99999",
    "http://host:port",
    "https://",
    "http://:80",
    "ftp://host",
    "//host",
    "x",
]


def one_line(raised: pytest.ExceptionInfo[Exception]) -> str:
    said = str(raised.value)
    assert "\n" not in said and len(said) < 300
    return said


@pytest.mark.parametrize("text", ["٣", "９", "²", "9" * 5_000, "9" * 11, "-1", "1.5", "0x1", "1_000", "1 2"])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match=r"invalid --seeds .*: expected comma-separated integers") as raised:
        options.parse_number("--seeds", text)
    one_line(raised)
    assert options.parse_number("--seeds", "007") == 7


@pytest.mark.parametrize("key", ["seeds", "validate.split_seed", "views.token.pretrain.seed"])
@pytest.mark.parametrize("seed", [LARGEST + 1, 10**30, -1, "٣"])
def test_a_seed_that_no_generator_takes_is_refused_before_anything_runs(key: str, seed: Any, tmp_path: Path) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["views"]["token"] = {"tokenizer": "token", "pretrain": {}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    for value, fits in ((LARGEST, True), (seed, False)):
        request = Request(root=tmp_path, changes={key: [value] if key == "seeds" else value})
        copy = tmp_path / "changed.yaml"
        copy.write_text((tmp_path / "params.yaml").read_text())
        overrides.write(copy, request)
        if fits:
            load(copy)
            continue
        with pytest.raises(ParameterError, match=rf"params\.yaml: {key}"):
            load(copy)


def test_the_largest_seed_is_one_that_torch_and_numpy_take() -> None:
    import numpy as np
    import torch

    torch.manual_seed(LARGEST)
    np.random.RandomState(LARGEST)
    with pytest.raises(ValueError, match="Seed must be"):
        np.random.RandomState(LARGEST + 1)


def test_labels_of_thousands_of_digits_are_sorted_as_names() -> None:
    import polars as pl

    from epigram.data.validation.row_index import LabelCodes

    many = "9" * 5_000
    found = LabelCodes(4)
    found.add(0, pl.Series(["10", many, "b", "2"]))
    assert _sorted_labels(found) == [many, "b", "2", "10"]
    assert _sort_labels(["10", many, "b", "2"], Path("x.csv")) == ["2", "10", many, "b"]


@pytest.mark.parametrize(
    "place", ["host:99999", "host:0", "host:٣", f"host:{'9' * 5_000}", ":80", "host", "x" * 70 + ".y:1"]
)
def test_a_ray_address_without_a_port_that_there_is_is_refused(place: str) -> None:
    with pytest.raises(ParameterError, match="invalid --ray") as raised:
        ray_address.ping(place)
    one_line(raised)


def test_a_ray_address_where_nobody_answers_is_tried_again() -> None:
    with pytest.raises(TryAgainError, match=r"cannot connect to a Ray cluster at 127\.0\.0\.1:1"):
        ray_address.ping("127.0.0.1:1")


@pytest.mark.parametrize("port", ["99999", "65536", "-1", "http"])
def test_a_port_of_the_dashboard_that_there_is_not_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app(["dashboard", "--port", port])
    assert end.value.code == 64
    assert capsys.readouterr().err.startswith("error: Invalid value for '--port'")


@pytest.mark.parametrize("text", NOT_WEB)
def test_what_is_no_web_address_is_refused_everywhere(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_http_url(text)
    with pytest.raises(ParameterError, match="EPIGRAM_WEBHOOK is not a valid URL"), notices.start_relay(text):
        pass
    monkeypatch.setenv("EPIGRAM_MIRROR", text)
    with pytest.raises(ParameterError, match="EPIGRAM_MIRROR is"):
        list(_candidate_addresses(File(path="a.csv", mirror="a.csv")))
    source = {"name": "toy", "about": "", "language": "en", "task": "single", "licence": "", "read": {"reader": "csv"}}
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump({**source, "files": [{"path": "a.csv", "url": text}]}))
    with pytest.raises(ParameterError, match=r"toy\.yaml: files\.0\.url is") as raised:
        read_source(tmp_path / "toy.yaml")
    one_line(raised)


@pytest.mark.parametrize("text", ["http://[::1]:80/a", "https://host/a?b", "http://u:p@host:65535"])
def test_web_addresses_are_taken(text: str) -> None:
    assert is_http_url(text)


@pytest.mark.parametrize("value", ['"a\\0b"', '{a: "\\0"}', '["x\\x00"]', '{"k\\0": 1}'])
def test_a_nul_character_in_a_setting_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="is not a YAML value"):
        options.parse_change(f"retrain.incoming={value}")
    (tmp_path / "params.yaml").write_text(f"dataset: {value}\n")
    with pytest.raises(ParameterError, match=r"params\.yaml is not valid YAML: .* contains a NUL character"):
        load(tmp_path / "params.yaml")


def test_a_nul_character_in_a_path_is_the_user_s_error() -> None:
    with pytest.raises(ValueError, match="embedded null") as raised:
        Path("a\0b").read_bytes()
    assert exit_code(raised.value) == 64
    assert message(raised.value) == "a path or a name contains a NUL character: remove it"
    assert exit_code(ValueError("another")) == 70


SERVER = "postgresql+asyncpg://me:s3cret@127.0.0.1"


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (":1/db?foo=1", r"\(127\.0\.0\.1, db, options foo\): an option is unknown"),
        (":1/db?ssl=maybe&a=s3cret", "options a, ssl"),
        (":1/db?prepared_statement_cache_size=s3cret", "options prepared_statement_cache_size"),
        (":1/db?plugin=none", "options plugin"),
        (":99999/db", "the value of an option or of the port is invalid"),
        (":port/db", "DATABASE is not a valid URL"),
    ],
)
def test_an_address_of_a_database_that_cannot_be_used_is_refused_without_its_secrets(rest: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said) as raised:
        database.check_connection(f"{SERVER}{rest}")
    assert "s3cret" not in one_line(raised)


def tokenizer(**parts: Any) -> Tokenizer:
    return Tokenizer.from_str(json.dumps({**json.loads(word_tokenizer([*SPECIALS, "a"]).to_str()), **parts}))


@pytest.mark.parametrize("charsmap", [b"", b"\0\0\0\0abc", b"\4\0\0\0abcd", b"\0\1\0\0" + b"\xff" * 256])
def test_a_character_map_that_makes_the_library_panic_is_a_damaged_tokenizer(
    charsmap: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(word_tokenizer([*SPECIALS, "a"]).to_str())
    whole["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    with pytest.raises(
        DataError, match=r"tokenizer\.json is not a valid tokenizer \((Precompiled|index out of bounds)"
    ) as raised:
        load_tokenizer(tmp_path / "tokenizer.json")
    one_line(raised)
    capfd.readouterr()  # discard the panic message of the Rust library


def test_an_expression_that_takes_too_long_on_a_text_is_a_damaged_tokenizer(capfd: pytest.CaptureFixture[str]) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": False}
    encoder = TextEncoder(tokenizer(pre_tokenizer=split))
    assert encoder.encode(["a"], 9).ids.values.tolist() == [len(SPECIALS)]
    for read in (encoder.encode, encoder.encode_with_positions):
        with pytest.raises(DataError, match=r"the tokenizer failed on a text \(.*retry-limit.*\): its tokenizer\.json"):
            read(["a" * 60 + "b"], 9)
    capfd.readouterr()


def test_a_model_without_its_unknown_token_is_a_damaged_tokenizer() -> None:
    model = {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2}, "unk_token": "[NONE]"}
    encoder = TextEncoder(tokenizer(model=model, added_tokens=[]))
    with pytest.raises(DataError, match="the tokenizer failed on a text"):
        encoder.encode(["b"], 9)


def test_faults_that_are_no_tokenizer_s_pass() -> None:
    encoder = TextEncoder(word_tokenizer([*SPECIALS, "a"]))
    words: Any = [1]
    with pytest.raises(TypeError):
        encoder.encode(words, 9)
