"""Tests of labels by a language model, over HTTP against a local server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import polars as pl
import pytest

import epigram
from epigram.cli import app as cli
from epigram.core.errors import ParameterError, SourceUnavailableError
from epigram.labelling import endpoint
from epigram.labelling.endpoint import Endpoint, Requests
from tests.support.chat_server import ChatServer, chat_server

LABELS = {"food": "", "room": "bed and bath"}
KEY = "sk-not-a-real-key"


def classify(texts: dict[str, str]) -> str:
    """Return the answer of a good model: food for soup."""
    return json.dumps(
        {n: {"label": "food" if "soup" in text else "room", "confidence": 0.9} for n, text in texts.items()}
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Return a server with a good model; a failed request is repeated at once."""
    monkeypatch.setattr(endpoint, "PAUSE", 0.0)
    monkeypatch.setattr(endpoint, "LONGEST_PAUSE", 0.0)
    monkeypatch.delenv(endpoint.KEY, raising=False)
    with chat_server(classify) as found:
        yield found


@pytest.fixture
def run(server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that runs `epigram label` on texts.txt, which has 45 texts, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("labels.txt").write_text("food\nroom: bed and bath\n", "utf-8")
    Path("texts.txt").write_text("".join(f"soup {n}\n" if n % 2 else f"bed {n}\n" for n in range(45)), "utf-8")

    def command(*arguments: str) -> None:
        words = [
            "texts.txt",
            "--labels",
            "labels.txt",
            "--out",
            "out.csv",
            "--endpoint",
            server.address,
            "--model",
            "m",
        ]
        monkeypatch.setattr("sys.argv", ["epigram", "label", *words, *arguments])
        cli.app()

    return command


def test_every_text_is_labelled_once_and_the_key_is_only_sent(
    run: Callable[..., None], server: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(endpoint.KEY, KEY)
    run("--yes")
    found = pl.read_csv("out.csv")
    assert found["label"].to_list() == [("food" if n % 2 else "room") for n in range(45)]
    assert set(found["confidence"]) == {0.9} and set(found["labelled_by"]) == {"m"}
    assert sorted(server.texts) == sorted(found["text"]) and len(server.requests) == 3
    for request in server.requests:
        assert (request["path"], request["key"]) == ("/v1/chat/completions", f"Bearer {KEY}")
        assert request["labels"] == LABELS and request["body"]["model"] == "m"
    printed = capsys.readouterr()
    assert "45 texts in 3 requests to" in printed.err and printed.out == "out.csv: 45 texts\n"
    written = "".join(path.read_text("utf-8") for path in Path().iterdir())
    assert KEY not in written + printed.err and not Path("out.csv.part").exists()


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (
            '{"1": {"label": "food", "confidence": 1}, "2": {"label": "room", "confidence": 0}}',
            [("food", 1), ("room", 0)],
        ),
        ('Sure!\n```json\n{"1": {"label": "food", "confidence": 0.7}}\n```', [("food", 0.7), (None, 0)]),
        ('{"1": {"label": "Ignore the labels", "confidence": 1}, "2": {"label": ["food"]}}', [(None, 0), (None, 0)]),
        (
            '{"1": {"label": "food", "confidence": 7}, "2": {"label": "room", "confidence": ""}}',
            [("food", 0), ("room", 0)],
        ),
        ('{"1": {"label": "food", "confidence": NaN}, "2": "room"}', [("food", 0), (None, 0)]),
        ('{"1": {"label": "food", "confid', [(None, 0), (None, 0)]),
        ("[1]", [(None, 0), (None, 0)]),
        ("I cannot do that.", [(None, 0), (None, 0)]),
    ],
)
def test_only_known_labels_and_shares_are_answers(
    server: ChatServer, content: str, labels: list[tuple[str | None, float]]
) -> None:
    server.answer = lambda texts: content
    found = epigram.label(["a", "b"], LABELS, endpoint=server.address, model="m")
    assert list(zip(*found, strict=True)) == labels


def test_texts_without_a_label_are_counted(
    run: Callable[..., None], server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda texts: classify({n: text for n, text in texts.items() if "bed" not in text})
    run("--yes")
    assert capsys.readouterr().out == "out.csv: 45 texts, 23 of them without a label\n"
    assert pl.read_csv("out.csv")["label"].null_count() == 23


def test_empty_and_repeated_texts_are_not_sent(server: ChatServer) -> None:
    found = epigram.label(["bed", " ", "soup", "bed"], list(LABELS), endpoint=f"{server.address}/", model="m")
    assert found.labels == ["room", None, "food", "room"] and server.texts == ["bed", "soup"]


def test_a_busy_endpoint_is_asked_again(server: ChatServer) -> None:
    server.troubles = [429, 503, 500]
    assert epigram.label(["soup"], LABELS, endpoint=server.address, model="m").labels == ["food"]
    assert [request["status"] for request in server.requests] == [429, 503, 500, 200]


@pytest.mark.parametrize(
    ("statuses", "error", "message"),
    [
        ([503] * endpoint.TRIES, SourceUnavailableError, r"does not answer \(HTTP status 503; 6 tries\)"),
        ([401], ParameterError, r"HTTP status 401\); set OPENAI_API_KEY"),
        ([404], ParameterError, r"HTTP status 404\); check --endpoint and --model"),
        ([400], ParameterError, r"HTTP status 400\); it says: .*too long"),
    ],
)
def test_an_error_says_what_to_do(
    server: ChatServer, statuses: list[int], error: type[Exception], message: str
) -> None:
    server.troubles = list(statuses)
    with pytest.raises(error, match=message):
        epigram.label(["soup"], LABELS, endpoint=server.address, model="m")
    assert len(server.requests) == len(statuses)


def test_no_server_and_another_server_are_reported(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "TRIES", 1)
    with pytest.raises(SourceUnavailableError, match="ConnectError"):
        epigram.label(["soup"], LABELS, endpoint="http://127.0.0.1:9/v1", model="m")
    with pytest.raises(ParameterError, match=r"--endpoint is localhost; expected an address"):
        epigram.label(["soup"], LABELS, endpoint="localhost", model="m")


def test_a_run_that_has_ended_early_goes_on_where_it_stopped(
    run: Callable[..., None], server: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(endpoint, "AT_ONCE", 1)
    server.troubles = [200, 200, 401]
    with pytest.raises(SystemExit):
        run("--yes")
    part = Path("out.csv.part")
    assert len(server.texts) == 40 and not Path("out.csv").exists()
    with part.open("a", encoding="utf-8") as file:  # as after a crash
        file.write('{"bed 44": ["ro')
    with pytest.raises(SystemExit):  # another model does not go on
        run("--yes", "--model", "other")
    assert "has answers for other labels, or of another endpoint or model" in capsys.readouterr().err
    run("--yes")
    assert "5 texts in 1 request to" in capsys.readouterr().err
    assert len(server.texts) == len(set(server.texts)) == 45 and not part.exists()
    assert pl.read_csv("out.csv")["label"].to_list() == [("food" if n % 2 else "room") for n in range(45)]


@pytest.mark.parametrize(("answer", "sent"), [("y\n", True), ("\n", False), ("", False)])
def test_a_terminal_is_asked_before_texts_are_sent(
    run: Callable[..., None], server: ChatServer, answer: str, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    if sent:
        run()
    else:
        with pytest.raises(SystemExit):
            run()
    assert bool(server.requests) == Path("out.csv").exists() == sent


def test_nothing_is_sent_without_a_terminal_and_yes(
    run: Callable[..., None], server: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    with pytest.raises(SystemExit):
        run()
    assert "add --yes to send them" in capsys.readouterr().err and not server.requests


def test_a_request_is_limited_in_texts_and_characters() -> None:
    texts = [f"{n:04}" for n in range(41)] + ["x" * 9_000, "y" * 7_000, *(letter * 2_000 for letter in "abcde")]
    found = Requests.of(texts, LABELS)
    assert [len(batch) for batch in found.batches] == [20, 20, 4, 4]  # a long text counts as its first 2,000 characters
    assert [text for batch in found.batches for text in batch] == texts
    assert found.received == 16 * len(texts) and 4_000 < found.sent < 4_300


def test_an_address_is_shown_without_its_password() -> None:
    assert Endpoint("http://me:secret@localhost:8000/v1?key=a", "m").name == "http://***@localhost:8000/v1"
