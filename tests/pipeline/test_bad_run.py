"""Errors of files, disks and processes while the pipeline runs or a model predicts."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bad_input import Ended, Workshop, built, changed, csv, flipped
from tests.support.families import FAMILIES, checkpoint

ROOT = Path(__file__).parents[2]
MODEL = "data/models/mlp/seed-0"
ENCODE = ("encode", "token", "data/validated", "data/augmented", "data/pos")
TRAIN = ("train", "mlp", "data/encoded/token", "data/pretrained/token")
PRUNE = ("prune", "mlp", "data/encoded/token", "data/models/mlp")
EVALUATE = ("evaluate", "mlp", "data/validated", "data/encoded/token", "data/pruned/mlp")
START = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
runpy.run_module("epigram.stages.train", run_name="__main__")
"""


EXAMINE = ("examine", "data/validated")
ENSEMBLE = ("ensemble", "data/validated", "data/evaluated", "data/pruned")
COMPARE = ("compare", "data/validated", "data/examined", "data/evaluated", "data/ensemble", "data/pruned")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return built(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def shop(workshop: Workshop) -> Workshop:
    workshop.params()
    workshop.clear()
    return workshop


@pytest.mark.parametrize(
    ("step", "file", "content", "code"),
    [
        (("validate", "data/raw"), "data/raw/reviews.csv", None, 66),
        (("validate", "data/raw"), "data/raw/source.json", b"{", 65),
        (("pos_table", "data/validated", "data/pos_versions"), "data/validated/train.parquet", b"PAR1", 65),
        (("augment", "data/validated"), "data/validated/corpus.json", b"[]", 65),
        (ENCODE, "data/validated/dev.parquet", None, 66),
        (ENCODE, "data/pos/table.parquet", b"", 65),
        (TRAIN, "data/encoded/token/train.offsets.npy", None, 66),
        (TRAIN, "data/encoded/token/train.ids.npy", b"\x93NUMPY", 65),
        (PRUNE, f"{MODEL}/labels.json", b'["bad", "good"]', 65),
        (EVALUATE, "data/validated/test.parquet", b"", 65),
        (EVALUATE, "data/validated/test.parquet", None, 66),
        (ENSEMBLE, "data/evaluated/mlp/predictions.safetensors", b"half", 65),
        (COMPARE, "data/evaluated/mlp/predictions.safetensors", b"half", 65),
        (COMPARE, "data/ensemble/ensemble.json", None, 66),
        (COMPARE, "data/ensemble/ensemble.json", b"[]", 65),
        (COMPARE, "data/validated/report.json", b"\xff", 65),
        (COMPARE, "data/examined/quality.json", None, 66),
        (EXAMINE, "data/validated/train.parquet", b"PAR1", 65),
    ],
)
def test_a_stage_s_input_that_is_gone_or_broken(
    shop: Workshop, step: tuple[str, ...], file: str, content: bytes | None, code: int
) -> None:
    path = shop.root / file
    with changed(path, content):
        shop.stage(*step, shop.out).refused(code, str(Path(file).parent))
    assert shop.left() == []


@pytest.mark.parametrize("name", ["train.ids.npy", "train.labels.npy"])
def test_a_flipped_byte_in_what_training_reads(shop: Workshop, name: str) -> None:
    path = shop.root / "data/encoded/token" / name
    with changed(path, flipped(path.read_bytes(), path.stat().st_size - 1)):
        shop.stage(*TRAIN, shop.out).refused(65, name, "contains values outside 0 to", "run dvc repro")
    assert shop.left() == []


@pytest.mark.parametrize(
    ("broken", "code", "said"),
    [
        (None, 66, ["is not a folder: check the path"]),
        ("no weights", 66, ["has no model.safetensors", "save the model with its method save_pretrained"]),
        ("half the weights", 65, ["cannot be loaded"]),
        ("fewer tokens", 65, ["the checkpoint has 8 tokens but the view has", "rerun encode"]),
    ],
)
def test_a_checkpoint_that_is_not_what_the_view_was_made_with(
    shop: Workshop, broken: str | None, code: int, said: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    if broken is not None:
        checkpoint("bert", folder, {**FAMILIES["bert"], "vocab_size": 8})
    if broken == "no weights":
        (folder / "model.safetensors").unlink()
    if broken == "half the weights":
        (folder / "model.safetensors").write_bytes(b"half")
    path = shop.root / "data/encoded/token/view.json"
    shop.params(systems={"mlp": {"view": "token", "recipe": "bert"}})
    about = json.loads(path.read_bytes())
    with changed(path, json.dumps(about | {"checkpoint": str(folder)}).encode()):
        shop.stage(*TRAIN, shop.out).refused(code, *said)
    assert shop.left() == []


@pytest.mark.parametrize("file", ["config.json", "labels.json", "model.safetensors", "tokenizer.json"])
def test_a_model_that_is_not_as_it_was_saved(shop: Workshop, file: str) -> None:
    path = shop.root / MODEL / file
    with changed(path, flipped(path.read_bytes(), path.stat().st_size // 2)):
        shop.epigram("predict", MODEL, "很好").refused(
            65, f"{MODEL}/{file} was changed after", "restore the model's folder"
        )
    with changed(path, None):
        shop.epigram("predict", MODEL, "很好").refused(66, file, "missing")


def test_a_model_with_the_tokenizer_or_the_labels_of_another(shop: Workshop) -> None:
    swapped = (shop.root / MODEL / "labels.json").read_bytes().replace(b"good", b"fine")
    other = (shop.root / "data/encoded/prompted/tokenizer.json").read_bytes()
    for file, content in (("labels.json", swapped), ("tokenizer.json", other)):
        with changed(shop.root / MODEL / file, content):
            shop.epigram("predict", MODEL, "很好").refused(65, f"{MODEL}/{file} was changed after the model was saved")


def test_what_is_no_model(shop: Workshop) -> None:
    shop.epigram("predict", MODEL, "很好", "--file", "new/texts.txt").refused(
        64, "--file is 'new/texts.txt'", "texts are given as arguments"
    )
    shop.epigram("predict", "nowhere", "很好").refused(66, "nowhere does not exist; expected the folder of a model")
    shop.epigram("predict", "data/raw", "很好").refused(66, "data/raw is not a saved model")
    with changed(shop.root / MODEL / "manifest.json", b"{}"):
        shop.epigram("predict", MODEL, "很好").refused(65, "manifest.json has no checksums")


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        ("很好\n".encode() + "很差\n".encode("gbk"), ["stdin line 2 is not UTF-8, but other lines are"]),
        ("とても\n".encode("cp932"), ["stdin line 1 is not UTF-8", "cp932 (Japanese)", "use --encoding NAME"]),
        (b"good\n\xff\xfe\n", ["stdin line 2 is not UTF-8"]),
        (b"good\nb\0d\n", ["stdin line 2 has a NUL byte"]),
    ],
)
def test_texts_that_are_no_text(shop: Workshop, stdin: bytes, said: list[str]) -> None:
    shop.epigram("predict", MODEL, stdin=stdin).refused(65, *said)
    (shop.root / "new/texts.txt").write_bytes(stdin)
    said = [words.replace("stdin", "new/texts.txt") for words in said]
    shop.epigram("predict", MODEL, "--file", "new/texts.txt").refused(65, *said)


def test_texts_without_content_are_answered_line_by_line(shop: Workshop) -> None:
    ended = shop.epigram("predict", MODEL, stdin="\ufeff很好\n\n😀\n \n".encode())
    assert ended.code == 0
    assert [line.split("\t")[2] for line in ended.out.splitlines()] == ["很好", "", "😀", " "]
    assert ended.err == "note: 2 texts are empty, without a label\n"
    assert shop.epigram("predict", MODEL, "").err == "note: 1 text is empty, without a label\n"


def test_a_text_of_100_000_characters_is_answered(shop: Workshop) -> None:
    ended = shop.epigram("predict", MODEL, stdin=("好" * 100_000).encode())
    assert ended.code == 0
    assert ended.out.startswith(("good\t", "bad\t"))


@pytest.mark.parametrize(
    ("arguments", "said", "see"),
    [
        (["predict"], "Missing argument 'model'", "see epigram predict --help"),
        (["predict", MODEL, "--josn", "很好"], "No such option: --josn", "see epigram predict --help"),
        (["forecast"], "No such command 'forecast'", "see epigram --help"),
        (["add", "mine.csv", "--language", "fr"], "'--language'", "see epigram add --help"),
    ],
)
def test_a_command_line_that_cannot_be_read(shop: Workshop, arguments: list[str], said: str, see: str) -> None:
    shop.epigram(*arguments).refused(64, said, see)


@contextlib.contextmanager
def a_full_disk(room: int) -> Iterator[None]:
    """Limit files to `room` bytes, so that writes fail with a real system error, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "step", [("validate", "data/raw"), ("augment", "data/validated"), EXAMINE, ENCODE, TRAIN, PRUNE, ENSEMBLE, COMPARE]
)
def test_a_disk_that_is_full(shop: Workshop, step: tuple[str, ...]) -> None:
    where = {TRAIN: ".epigram/state/train", PRUNE: ".epigram/state/prune"}.get(step, "new/out")
    with a_full_disk(64):
        shop.stage(*step, shop.out).refused(74, os.strerror(errno.EFBIG), where)
    assert shop.left() == []


def test_a_full_disk_costs_no_earlier_result(shop: Workshop) -> None:
    shop.stage("augment", "data/validated", shop.out)
    before = (shop.out / "prompt.json").read_bytes()
    with a_full_disk(64):
        assert shop.stage("augment", "data/validated", shop.out).code == 74
    assert (shop.out / "prompt.json").read_bytes() == before
    assert shop.left() == ["out"]


def test_a_folder_that_cannot_be_written(shop: Workshop) -> None:
    step = ("augment", "data/validated", "data/raw/reviews.csv/out")
    shop.stage(*step).refused(64, "data/raw/reviews.csv")


def test_a_folder_that_is_read_only(shop: Workshop) -> None:
    root = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]  # else root could write anywhere
    command = [sys.executable, "-m", "epigram.stages.augment", "data/validated", str(shop.out)]
    shop.out.parent.chmod(0o500)
    try:
        ended = subprocess.run(
            [*(root if os.geteuid() == 0 else []), *command],
            cwd=shop.root,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        Ended(ended.returncode, ended.stdout, ended.stderr).refused(
            74, "Permission denied", "check the read and write permissions"
        )
    finally:
        shop.out.parent.chmod(0o700)


def test_where_answers_find_no_room(shop: Workshop) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "epigram.cli", "predict", MODEL, "很好"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        ended = subprocess.run(
            command, cwd=shop.root, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode in {74, 120}  # 120: exit code of Python if the error occurs at shutdown
    assert "No space left on device" in ended.stderr


def test_ctrl_c_ends_with_130_and_loses_nothing(shop: Workshop) -> None:
    out = shop.out.parent / "mlp"
    shutil.copytree(shop.root / "data/models/mlp", out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    shop.params(systems={"mlp": {"view": "token", "train": {"epochs": 100_000, "patience": 100_000}}})
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", START, *TRAIN[1:], str(out)],
        cwd=shop.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any("epoch 1/100000" in line for line in process.stdout)  # after a note on files of an earlier test
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "error: interrupted\n")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert shop.left() == ["mlp"]


def test_a_stage_as_a_process_ends_the_same(shop: Workshop) -> None:
    shop.source(csv([("很好", "good")] * 9))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    for step, code in (
        (("download", "data/sources/reviews.yaml", "new/raw"), 0),
        (("validate", "new/raw", "new/out"), 65),
    ):
        command = [sys.executable, "-m", f"epigram.stages.{step[0]}", *step[1:]]
        ended = subprocess.run(command, cwd=shop.root, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == code
        assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("error: 1 violation in the corpus: 1 × only one class; fix the data\n")
    assert shop.left() == ["raw"]
