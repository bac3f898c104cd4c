"""Tests of the stage pretrain: what it prints, its further texts, and the settings that it refuses."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from epigram.core.errors import DataError, EpigramError, InputMissingError, ParameterError
from epigram.core.files import read_json
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.runner.workspace.settings import load
from epigram.stages import pretrain
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import (
    PretrainSettings,
    ViewSettings,
)
from epigram.text.tokens.tokenizers import vocabulary_of
from epigram.text.unlabelled import write_texts
from epigram.training.pretraining.shards import Texts
from epigram.workflow.pretrain import pretrain_view
from tests.support.precisions import discards
from tests.support.pretraining import CORPUS, SMALL, params

pytestmark = pytest.mark.usefixtures("own_folder")

MORE = "data/local/more.txt"
WITH_TEXTS = ViewSettings(pretrain=PretrainSettings(texts=MORE))


def test_off_says_so_and_imports_nothing_that_learns(tmp_path: Path) -> None:
    params(tmp_path, None)
    code = "import sys; sys.argv = ['pretrain', 'v', 'none', 'new/out'];"
    code += "from epigram.stages.pretrain import main; main(); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'jieba', 'polars')))"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert [path.name for path in (tmp_path / "new/out").iterdir()] == ["about.json"]
    assert find_pretrained(tmp_path / "new/out", tmp_path) is None


def test_on_is_one_line(
    encoded_view: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params(tmp_path, {"pretrain": {}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pretrain", "v", str(encoded_view(ViewSettings())), "out"])
    asked: list[PretrainSettings] = []
    told = "epigram.workflow.pretrain.pretrain_view"
    monkeypatch.setattr(told, lambda _, settings, *__, **___: asked.append(settings))
    pretrain.main()
    assert asked == [PretrainSettings()]


def further(root: Path, content: bytes) -> str:
    (root / "data/local").mkdir(parents=True)
    (root / "data/local/more.txt").write_bytes(content)
    return MORE


def test_further_texts_are_read_too(
    encoded_view: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epigram.text.unlabelled.BATCH", 120)
    lines = "\ufeffsalt and salt\r\n\n  \n" + "rain and sun " * 1_000 + "\nunheardof"
    path, view = further(tmp_path, lines.encode()), View.load(encoded_view(WITH_TEXTS))
    assert write_texts(tmp_path, view, Path(path)) == 0
    kept, held = Texts.load(tmp_path, "train"), Texts.load(tmp_path, "held")
    assert (len(kept), len(held)) == (394, 9)  # each fiftieth text is held out, whatever the batches are
    vocabulary = vocabulary_of(Tokenizer.from_file(str(view.tokenizer_json)))
    last = [vocabulary[i] for i in kept.ids[-2:].values]
    assert last == ["rain", "and", "sun"] * 1_000 + ["[UNK]"]  # all tokens of a long text
    assert "zebra" not in vocabulary  # occurs only in test, which the vocabulary does not use


def test_texts_of_dev_and_test_are_left_out_and_counted(
    encoded_view: Callable[[ViewSettings], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epigram.text.unlabelled.BATCH", 4)  # the last batch has only one such text
    held_out = [CORPUS["dev"][0][0], f"  {CORPUS['dev'][1][0]}\u3000", "salt", "zebra and zebra", "salt"]
    path = further(tmp_path, "\n".join([*held_out, "salt and salt", "", "zebra and", "Zebra and zebra"]).encode())
    settings = PretrainSettings(**SMALL, texts=path, epochs=1)
    pretrain_view("v", settings, encoded_view(WITH_TEXTS), tmp_path / "out", state=Path("state"))
    about = read_json(tmp_path / "out/about.json")
    assert (about["left_out"], about["texts"] + about["held_out"]) == (5, 403)
    assert "v pretrain: 5 texts of more.txt are left out: they are also in dev or test" in capsys.readouterr().out


def test_a_view_that_was_encoded_without_further_texts_does_not_read_them(
    encoded_view: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, view = further(tmp_path, b"salt and salt\n"), View.load(encoded_view(ViewSettings()))
    with pytest.raises(InputMissingError, match=r"held_out\.npy is missing: run the stage that writes it"):
        write_texts(tmp_path, view, Path(path))


@pytest.mark.parametrize(
    ("content", "texts", "kind", "said"),
    [
        (b"a", "data/local/mroe.txt", InputMissingError, "views.v.pretrain.texts is 'data/local/mroe.txt'"),
        (b"a", "/etc/passwd", ParameterError, "expected a file in data/local"),
        (b"a", "data/local/../../more.txt", ParameterError, "expected a file in data/local"),
        (
            "很好\n".encode() + "不错\n".encode("gbk"),
            None,
            DataError,
            "more.txt line 2 is not UTF-8, but other lines are",
        ),
        ("とても\n".encode("cp932"), None, DataError, "more.txt line 1 is not UTF-8.*; convert the file to UTF-8"),
        (b"\n \n", None, DataError, "more.txt contains no text"),
    ],
)
def test_texts_that_cannot_be_read(
    encoded_view: Callable[[ViewSettings], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    texts: str | None,
    kind: type[EpigramError],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = further(tmp_path, content)
    settings = PretrainSettings(**SMALL, texts=texts or path)
    with pytest.raises(kind, match=said):
        pretrain_view("v", settings, encoded_view(WITH_TEXTS), tmp_path / "new/out", state=Path("state"))
    with contextlib.suppress(FileNotFoundError):
        assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_length": 5}, "views.v.pretrain.max_length is 5, but prompt and special tokens take"),
        ({"heads": 5}, "views.v.pretrain: width 32 is not a multiple of heads 5"),
        ({"learning_rate": 1e9, "epochs": 40}, r"lower the view's pretrain\.learning_rate"),
    ],
)
def test_settings_that_cannot_train(
    encoded_view: Callable[[ViewSettings], Path], tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    view = encoded_view(ViewSettings(tokenizer="wordpiece", prompt=True))
    with pytest.raises(ParameterError, match=said):
        pretrain_view("v", PretrainSettings(**SMALL | settings), view, tmp_path / "out", state=Path("state"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ({"pretrain": {}, "vectors": "x"}, r"views\.v has vectors and pretrain; expected one source of"),
        ({"checkpoint": "y", "vectors": "x"}, r"views\.v has vectors and checkpoint"),
        ({"pretrain": {"epoch": 3}}, r"views\.v\.pretrain\.epoch is not a setting: did you mean 'epochs'\?"),
        ({"pretrain": {"mask_share": 1}}, r"views\.v\.pretrain\.mask_share is 1"),
        ({"pretrain": True}, r"views\.v\.pretrain is True"),
    ],
)
def test_settings_that_are_refused_at_once(tmp_path: Path, view: dict[str, Any], said: str) -> None:
    params(tmp_path, view)
    with pytest.raises(ParameterError, match=said):
        load(tmp_path / "params.yaml")


def test_resume_state_of_another_precision_is_discarded(
    encoded_view: Callable[[ViewSettings], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*arguments: Any) -> None:
        arguments[-2].mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("epigram.workflow.pretrain._pretrain", stop)

    def start() -> None:
        view = encoded_view(ViewSettings())
        pretrain_view("v", PretrainSettings(**SMALL), view, Path("out"), state=Path("state"))

    assert discards(start, KeyboardInterrupt, monkeypatch, capsys) == [False, False, True]
