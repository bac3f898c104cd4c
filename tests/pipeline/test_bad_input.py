"""Errors in a user's data and settings: one clear line, the right exit code, no output written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.bad_input import PARAMS, ROWS, STAGES, Workshop, built, csv

TRAIN = ("train", "mlp", "data/encoded/token", "data/pretrained/token")
GBK = csv(ROWS).encode("gbk")
LONG = csv([("好" * 100_000, "good"), *ROWS])


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return built(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def shop(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Return the workshop with valid settings, without outputs and without a mirror."""
    monkeypatch.delenv("EPIGRAM_MIRROR", raising=False)
    workshop.params()
    workshop.clear()
    return workshop


def system(name: str = "mlp", **changes: Any) -> dict[str, Any]:
    return {"systems": {name: {"view": "token"} | changes}}


@pytest.mark.parametrize(
    ("content", "changes", "said"),
    [
        ("", {}, ["reviews.csv is empty"]),
        (csv([]), {}, ["reviews has no rows", "reviews.csv"]),
        (csv(ROWS, header="txt,label"), {}, ["reviews.csv has no column 'text'", "did you mean 'txt'?"]),
        (csv([(text, "good") for text, _ in ROWS]), {}, ["only one class", "fix the data"]),
        (csv([*ROWS, ("少见", "rare")]), {}, ["too few rows of a class"]),
        (csv([*ROWS, ("手滑", "godo")]), {"labels": ["good", "bad"]}, ["1 × unknown label", "reviews.csv"]),
        (csv([*ROWS, ("", "good")]), {}, ["1 × empty text", "validate.on_empty"]),
        (csv([*ROWS, ("没有标签", "")]), {}, ["1 × no label", "validate.on_unlabelled"]),
        (csv([*ROWS, ("坏\0的", "bad")]), {}, ["reviews.csv has a NUL byte in line 62"]),
        (csv([*ROWS, ("a", "b,c")]), {}, ["reviews.csv line 62 has 3 values for 2 columns"]),
        (csv(ROWS[1:3]), {}, ["too few rows of a class"]),
        (GBK, {}, ["reviews.csv is not UTF-8 at byte 11", "probably gb18030", "set read.encoding: gb18030"]),
        (csv(ROWS).encode("utf-16"), {}, ["reviews.csv is not UTF-8", "set read.encoding: utf-16"]),
        (csv(ROWS), {"rows": {"all": 61}}, ["reviews has 60 rows", "expected 61"]),
        (csv(ROWS), {"suffix": "jsonl"}, ["reviews.jsonl line 1 is not a JSON object"]),
        (csv(ROWS), {"suffix": "parquet"}, ["reviews.parquet is not a valid parquet file"]),
    ],
)
def test_data_that_cannot_be_used(
    shop: Workshop, content: bytes | str, changes: dict[str, Any], said: list[str]
) -> None:
    shop.validated(content, **changes).refused(65, *said)
    assert shop.left() == ["raw"]


def test_data_that_a_setting_refuses(shop: Workshop) -> None:
    torn = csv([*ROWS, (ROWS[0][0], "bad")])
    shop.params(validate={"on_conflict": "fail"})
    shop.validated(torn).refused(65, "2 × conflicting labels", "set validate.on_conflict to drop in params.yaml")
    shop.params()
    assert shop.validated(torn).code == 0
    said = "Rows with the text but not the label of another row of their split: 2 kept"
    assert any(note.startswith(said) for note in shop.corpus()["notes"])


def test_a_named_encoding_is_read(shop: Workshop) -> None:
    for encoding in ("gbk", "utf-16"):
        ended = shop.validated(csv(ROWS).encode(encoding), read={"reader": "csv", "encoding": encoding})
        assert ended.code == 0
        assert shop.corpus()["rows"] == {"train": 48, "dev": 6, "test": 6}


def test_a_missing_dev_split_is_cut_and_said(shop: Workshop) -> None:
    ended = shop.validated(csv(ROWS))
    assert "The source has no dev split: 6 of 60 training rows were moved to it, stratified by label" in ended.out
    assert shop.corpus()["rows"]["dev"] == 6


def test_emoji_alone_are_a_text(shop: Workshop) -> None:
    assert shop.validated(csv([("😀👍🏽", "good"), ("🏳️‍🌈", "bad"), *ROWS])).code == 0
    assert sum(shop.corpus()["rows"].values()) == 62


def test_a_text_of_100_000_characters_is_cut_and_counted(shop: Workshop) -> None:
    assert shop.validated(LONG).code == 0
    folder = shop.out
    encoded = shop.stage("encode", "token", folder, "data/augmented", "data/pos", "new/encoded")
    assert "1 texts truncated" in encoded.out
    trained = shop.stage("train", "mlp", "new/encoded", "data/pretrained/token", "new/models")
    assert "mlp: 1 training texts are truncated to 128 tokens (train.max_length)" in trained.out
    assert trained.code == 0


@pytest.mark.parametrize(
    ("step", "sections", "said"),
    [
        (TRAIN, {"train": {"epochss": 2}}, ["params.yaml: train.epochss is not", "did you mean 'epochs'?"]),
        (TRAIN, system(train={"epochss": 2}), ["systems.mlp.train.epochss is not", "did you mean 'epochs'?"]),
        (
            ("validate", "data/raw"),
            {"validate": {"on_leek": "drop"}},
            ["validate.on_leek is not", "mean 'on_leak'?"],
        ),
        (TRAIN, {"tran": {}}, ["params.yaml: tran is not a setting: did you mean 'train'?"]),
        (TRAIN, system(veiw="token"), ["systems.mlp.veiw is not a setting: did you mean 'view'?"]),
        (TRAIN, system(encoder={"depht": 3}), ["systems.mlp.encoder.depht is not", "did you mean 'depth'?"]),
        (TRAIN, {"seeds": [-1]}, ["params.yaml: seeds.0 is -1; expected a number greater than or equal to 0"]),
        (TRAIN, {"seeds": []}, ["params.yaml: seeds is []; expected one or more"]),
        (TRAIN, {"seeds": [0, 0]}, ["params.yaml: seeds is [0, 0]; expected one or more different integers"]),
        (TRAIN, {"train": {"epochs": -2}}, ["params.yaml: train.epochs is -2"]),
        (TRAIN, {"train": {"learning_rate": -0.1}}, ["params.yaml: train.learning_rate is -0.1"]),
        (TRAIN, {"train": {"learning_rate": float("inf")}}, ["train.learning_rate is inf", "finite"]),
        (
            TRAIN,
            {"train": {"learning_rate": 1e9, "clip": 1e9}},
            ["loss is NaN or infinite", "lower train.learning_rate"],
        ),
        (TRAIN, system("mpl"), ["params.yaml: systems has no 'mlp': did you mean 'mpl'?"]),
        (("train", "mpl", *TRAIN[2:]), system("mpl"), ["unknown system 'mpl': did you mean 'mlp'?"]),
        (TRAIN, system(recipe="tranformer"), ["systems.mlp.recipe", "did you mean 'transformer'?"]),
        (TRAIN, system(view="tokne"), ["params.yaml: systems.mlp.view is 'tokne': did you mean 'token'?"]),
        (TRAIN, system(head={"kind": "prompt"}), ["systems.mlp: head: prompt needs a view with prompt: true"]),
        (("train", "mlp", "data/encoded/prompted", TRAIN[3]), {"train": {"max_length": 9}}, ["train.max_length is 9"]),
        (("encode", "tokne", "a", "b", "c"), {}, ["params.yaml: views has no 'tokne': did you mean 'token'?"]),
    ],
)
def test_settings_that_are_refused(
    shop: Workshop, step: tuple[str, ...], sections: dict[str, Any], said: list[str]
) -> None:
    shop.params(**sections)
    shop.stage(*step, shop.out).refused(64, *said)
    assert shop.left() == []


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"a: [1\nb: {", 64, "params.yaml is not valid YAML"),
        (b"a: b\0", 64, "params.yaml is not valid YAML"),
        (b"", 64, "params.yaml is empty; expected sections"),
        (b"- dataset\n- seeds\n", 64, "params.yaml is a list; expected sections"),
        ("dataset: reviews # 评论".encode("gbk"), 64, "params.yaml is not UTF-8 at byte 19"),
        (b"dataset: reviews\n", 64, "params.yaml: seeds is missing"),
        (None, 66, "params.yaml is missing: run from the repository's root"),
    ],
)
def test_settings_that_cannot_be_read(shop: Workshop, content: bytes | None, code: int, said: str) -> None:
    (shop.root / "params.yaml").unlink() if content is None else (shop.root / "params.yaml").write_bytes(content)
    shop.stage(*TRAIN, shop.out).refused(code, said)
    assert shop.left() == []


@pytest.mark.parametrize("name", sorted(path.stem for path in STAGES.glob("[!_]*.py")))
def test_a_stage_says_what_it_needs(shop: Workshop, name: str) -> None:
    shop.stage(name).refused(64, f"usage: python -m epigram.stages.{name} ", " OUT")


def test_a_source_that_is_not_there(shop: Workshop) -> None:
    path = shop.source(csv(ROWS))
    shop.stage("download", "data/sources/rewiews.yaml", shop.out).refused(66, "did you mean 'reviews'?")
    (shop.root / "data/local/reviews.csv").unlink()
    shop.stage("download", path, shop.out).refused(66, "data/local/reviews.csv is missing; put the file there")
    assert shop.left() == []


def test_a_source_that_cannot_be_fetched(shop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = {"path": "a.csv", "url": "http://127.0.0.1:9/a.csv", "mirror": "a.csv"}
    ended = shop.stage("download", shop.source("", files=[file]), shop.out)
    ended.refused(69, "http://127.0.0.1:9/a.csv cannot be downloaded", "check the network, or set EPIGRAM_MIRROR")
    slip = shop.source("", files=[file | {"url": "ftp://host/a.csv"}])
    shop.stage("download", slip, shop.out).refused(64, "files.0.url is 'ftp://host/a.csv'", "https://")
    monkeypatch.setenv("EPIGRAM_MIRROR", str(tmp_path / "nowhere"))
    shop.stage("download", shop.source("", files=[file]), shop.out).refused(64, "EPIGRAM_MIRROR is", "nowhere")
    assert shop.left() == []


def test_a_changed_file_does_not_take_the_place_of_the_last_one(shop: Workshop) -> None:
    shop.stage("download", shop.source(csv(ROWS)), shop.out)
    file = {"path": "reviews.csv", "local": "data/local/reviews.csv", "sha256": "0" * 64}
    ended = shop.stage("download", shop.source("text,label\n", files=[file]), shop.out)
    ended.refused(65, "reviews.csv from data/local/reviews.csv has the checksum", "expected 000000000000…")
    assert (shop.out / "reviews.csv").read_text() == csv(ROWS)
    assert shop.left() == ["out"]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("", 65, "mine.csv is empty"),
        (csv([]), 65, "mine.csv has 0 rows"),
        (csv([(text, "good") for text, _ in ROWS]), 65, "the labels ['good'] in 'label'; expected at least two labels"),
        (csv(ROWS, header="text,lable"), 65, "no column 'label'; did you mean 'lable'?"),
        (csv(ROWS).replace("很", "\0"), 65, "mine.csv line 2 has a NUL byte"),
        (None, 66, "mine.csv is missing"),
    ],
)
def test_a_file_that_cannot_be_added(shop: Workshop, content: str | None, code: int, said: str) -> None:
    before = sorted((shop.root / "data").rglob("*"))
    file = shop.root / "new" / "mine.csv"
    if content is not None:
        file.write_text(content)
    shop.epigram("add", file).refused(code, said)
    assert sorted((shop.root / "data").rglob("*")) == before


def test_an_added_file_says_its_encoding(shop: Workshop) -> None:
    (shop.root / "new" / "mine.csv").write_bytes(GBK)
    ended = shop.epigram("add", "new/mine.csv")
    assert ended.out.startswith("data/sources/mine.yaml: added (60 rows, 2 labels, zh, gb18030)")
    (shop.root / "new" / "inches.csv").write_text('text,label\n5" long,good\n6 long,bad\n')
    ended = shop.epigram("add", "new/inches.csv")
    assert "added (2 rows, 2 labels, en, quotation marks read as plain characters)" in ended.out
    shop.epigram("add", "new/mine.csv").refused(64, "data/sources/mine.yaml already exists")


@pytest.mark.parametrize(
    ("checkpoint", "code", "said"),
    [
        ("./nowhere", 66, "checkpoint './nowhere' is not a folder: check the path"),
        ("new", 66, "checkpoint 'new' has neither tokenizer.json nor vocab.txt"),
        ("some/where", 66, "not a folder: check the path, or write hub:some/where@REVISION for a model of the Hugging"),
        (
            "hub:some/where@main",
            64,
            "checkpoint 'hub:some/where@main': expected hub:ORG/NAME@REVISION with the full",
        ),
    ],
)
def test_a_checkpoint_that_is_not_there(shop: Workshop, checkpoint: str, code: int, said: str) -> None:
    shop.params(views=PARAMS["views"] | {"pieces": {"tokenizer": "wordpiece", "checkpoint": checkpoint}})
    step = ("encode", "pieces", "data/validated", "data/augmented", "data/pos", shop.out)
    shop.stage(*step).refused(code, said)
    assert shop.left() == []
