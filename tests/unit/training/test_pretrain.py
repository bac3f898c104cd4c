"""Tests of pretraining on the user's texts: what is masked, what is learned, and which models get the weights."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer

from epigram.core.errors import DataError, EpigramError, InputMissingError, ParameterError
from epigram.core.ragged import Ragged
from epigram.inference.dataset_batches import data_spec_of, template_of
from epigram.models.registry import RECIPES
from epigram.models.serialization import load as saved_model
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.runner.workspace.settings import load
from epigram.stages import augment, encode, pretrain, train
from epigram.text.encoded_dataset import View
from epigram.text.encoding import TextEncoder
from epigram.text.pos_table import build, save
from epigram.text.settings import (
    AugmentSettings,
    EncodeSettings,
    PosTableSettings,
    PretrainSettings,
)
from epigram.text.settings import (
    View as ViewSettings,
)
from epigram.text.tokenizers import SPECIALS, character_tokenizer, vocabulary_of, word_tokenizer, wordpiece_tokenizer
from epigram.text.unlabelled import write_texts
from epigram.text.word_starts import WordStarts
from epigram.training import shards
from epigram.training.checkpoint import Checkpoints
from epigram.training.objectives.masked_language import MaskedLanguage, MaskedLanguageModel
from epigram.training.pretrain_encoder import training_config
from epigram.training.shards import Shards, Texts, split_rows, word_indices
from epigram.training.trainer import Trainer
from epigram.training.word_masking import Masking
from tests.support.text_samples import validated

PAIRS = {"salt": "pepper", "bread": "butter", "rain": "wind", "pen": "paper", "cat": "mouse", "sun": "moon"}
SMALL = {"width": 32, "depth": 2, "heads": 2, "hidden": 32, "batch_size": 16, "learning_rate": 5e-3}

LENGTH = 64


def rows(count: int, seed: int) -> list[tuple[str, str]]:
    """Return texts in which either word of a pair predicts the other."""
    draw = random.Random(seed)
    firsts = [draw.choice(list(PAIRS)) for _ in range(count)]
    return [(f"{first} and {PAIRS[first]}", draw.choice(["pos", "neg"])) for first in firsts]


CORPUS = {"train": rows(400, 0), "dev": rows(6, 1), "test": [("zebra and zebra", "pos"), ("salt", "neg")]}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[ViewSettings], Path]:
    """Return a function that encodes the corpus of pairs in any view."""
    folder = tmp_path_factory.mktemp("encoded")
    validated(folder / "validated", "en", CORPUS)
    (folder / "pos").mkdir()
    save(build(PosTableSettings()), folder / "pos", {})
    augment.run(AugmentSettings(), folder / "validated", folder / "augmented")

    def run(view: ViewSettings) -> Path:
        out = folder / f"{view.tokenizer}-{view.prompt}"
        if not out.exists():
            places = (folder / "validated", folder / "augmented", folder / "pos", out)
            encode.run("v", view, EncodeSettings(), *places)
        return out

    return run


@pytest.fixture(scope="module")
def pretrained(encoded: Callable[[ViewSettings], Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[View, Path]:
    """Return a word-piece view with a prompt, and the folder of an encoder pretrained on it."""
    view, out = encoded(ViewSettings(tokenizer="wordpiece", prompt=True)), tmp_path_factory.mktemp("new") / "out"
    pretrain.run("v", PretrainSettings(**SMALL, max_length=LENGTH, epochs=12), view, out)
    return View.load(view), out


def starts(tokenizer: Tokenizer, texts: list[str], *, language: str, whole: bool) -> list[list[str]]:
    """Return the words of each text, joined from their tokens."""
    vocabulary = vocabulary_of(tokenizer)
    finder = WordStarts(vocabulary, language=language, pieces=not whole)
    found = TextEncoder(tokenizer).encode(texts, 100)
    words: list[list[str]] = []
    for ids, begins in zip(found.ids, found.ids.with_values(finder.find(found.ids)), strict=True):
        row: list[str] = []
        for index, begin in zip(ids, begins, strict=True):
            row = [*row, vocabulary[index]] if begin else [*row[:-1], row[-1] + vocabulary[index]]
        words.append(row)
    return words


def test_chinese_words_are_those_of_jieba() -> None:
    texts = ["这家饭店的服务员很热情 iphone好", "好吃"]
    letters = sorted(set("".join(texts)))
    by_letter = character_tokenizer([*SPECIALS, *letters])
    expected = [["这家", "饭店", "的", "服务员", "很", "热情", " ", "iphone", "好"], ["好吃"]]
    assert starts(by_letter, texts, language="zh", whole=True) == expected
    by_pieces = wordpiece_tokenizer([*SPECIALS, *letters, "ip", "##hone"])
    expected[0].remove(" ")
    expected[0][-2] = "ip##hone"
    assert starts(by_pieces, texts, language="zh", whole=False) == expected


def test_latin_words_beside_each_other_stay_apart_in_chinese() -> None:
    tokenizer = wordpiece_tokenizer([*SPECIALS, "ip", "##hone", "a", "pro", "好"])
    assert starts(tokenizer, ["iphone a pro好"], language="zh", whole=False) == [["ip##hone", "a", "pro", "好"]]


def test_a_character_that_the_vocabulary_lacks_is_no_part_of_a_word() -> None:
    tokenizer = character_tokenizer([*SPECIALS, *"饭店好"])
    assert starts(tokenizer, ["饭店凤好"], language="zh", whole=True) == [["饭店", "[UNK]", "好"]]


def test_english_words_are_those_of_their_pieces() -> None:
    tokenizer = wordpiece_tokenizer([*SPECIALS, "un", "##heard", "##of", "!", "film"])
    assert starts(tokenizer, ["unheardof film!"], language="en", whole=False) == [["un##heard##of", "film", "!"]]
    tokenizer = word_tokenizer([*SPECIALS, "good", "film"])
    assert starts(tokenizer, ["good film"], language="en", whole=True) == [["good", "film"]]


def masked(words: torch.Tensor, share: float = 0.15, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids, the ids with masked words, and which tokens were chosen."""
    ids = torch.randint(10, 100, words.shape, generator=torch.Generator().manual_seed(1))
    masking = Masking(share=share, mask_id=4, ordinary=torch.arange(1_000, 2_000))
    hidden, chosen = masking(ids, words, torch.Generator().manual_seed(seed))
    return ids, hidden, chosen


def test_a_word_is_hidden_as_a_whole() -> None:
    words = (torch.arange(60) // 3).expand(500, -1)  # 20 words of 3 tokens
    ids, hidden, chosen = masked(words)
    kinds = torch.where(hidden == 4, 1, torch.where(hidden >= 1_000, 2, 3)) * chosen
    assert (kinds.view(500, 20, 3) == kinds.view(500, 20, 3)[..., :1]).all()
    assert torch.equal(hidden[~chosen], ids[~chosen])


def test_the_shares_are_those_of_the_paper() -> None:
    ids, hidden, chosen = masked(torch.arange(100).expand(2_000, -1))
    assert (chosen.sum(1) == 15).all()
    assert ((hidden == 4) & chosen).sum() / chosen.sum() == pytest.approx(0.8, abs=0.01)
    assert ((hidden >= 1_000) & chosen).sum() / chosen.sum() == pytest.approx(0.1, abs=0.01)
    assert ((hidden == ids) & chosen).sum() / chosen.sum() == pytest.approx(0.1, abs=0.01)


def test_every_text_hides_a_word_and_never_what_is_no_word() -> None:
    words = torch.tensor([[-1, 0, 0, -1, -1, -1], [-1, 0, -1, 1, 2, -1], [-1, -1, -1, -1, -1, -1]])
    for seed in range(20):
        _, _, chosen = masked(words, seed=seed)
        assert not chosen[words < 0].any()
        assert chosen[0].tolist() == [False, True, True, False, False, False]
        assert chosen[1].sum() == 1
        assert chosen[2].sum() == 0


def test_words_do_not_depend_on_how_often_one_occurs() -> None:
    long = torch.cat([torch.zeros(50), torch.arange(1, 10)]).long().expand(3_000, -1)  # one word of 50 tokens
    _, _, chosen = masked(long, share=0.1)
    assert chosen[:, 0].float().mean() == pytest.approx(0.1, abs=0.02)


def test_long_texts_are_cut_up_and_nothing_is_lost() -> None:
    begins = np.array([1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1], dtype=bool)
    pieces = split_rows(Ragged(begins, np.array([0, 3, 10, 14])), 4)
    assert pieces.offsets.tolist() == [0, 3, 7, 10, 14]
    assert word_indices(pieces).tolist() == [0, 0, 1, 0, 1, 1, 1, 0, 1, 2, 0, 1, 1, 2]


def test_shards_hold_every_text_once(
    encoded: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = View.load(encoded(ViewSettings()))
    write_texts(tmp_path, view, None)
    kept, held = Texts.load(tmp_path, "train"), Texts.load(tmp_path, "held")
    assert (len(kept), len(held)) == (392, 8)
    whole = Shards(kept, template_of(view, 32), torch.device("cpu")).shard(0)
    monkeypatch.setattr(shards, "SHARD_TOKENS", 500)
    parts = Shards(kept, template_of(view, 32), torch.device("cpu"))
    assert len(parts.edges) > 1
    every = [each.gather(np.arange(len(each))).ids for each in map(parts.shard, range(len(parts.edges)))]
    assert torch.equal(torch.cat(every), whole.gather(np.arange(392)).ids)
    order = np.random.default_rng(0)
    assert parts.steps(16) == sum(len(each.epoch(order, 16, 10_000)) for each in parts.shuffled(order))


def test_it_learns_to_name_what_is_hidden(pretrained: tuple[View, Path]) -> None:
    view, folder = pretrained
    about = json.loads((folder / "about.json").read_text())
    ids = np.asarray(view.split("train").ids.values)
    unigram = np.bincount(ids).max() / len(ids)  # the accuracy of always predicting the most frequent token
    assert about["perplexity"]["after"] < 0.5 * about["perplexity"]["before"]
    assert about["accuracy"]["after"] > unigram + 0.2
    assert about["accuracy"]["before"] < unigram + 0.1
    assert (about["texts"], about["held_out"]) == (392, 8)
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "encoder.json", "encoder.safetensors"]


@pytest.mark.filterwarnings("ignore:.*no-op:UserWarning")
def test_the_loss_is_followed_on_the_device_of_the_texts(
    encoded: Callable[[ViewSettings], Path], tmp_path: Path
) -> None:
    view, settings = View.load(encoded(ViewSettings())), PretrainSettings(**SMALL)
    write_texts(tmp_path, view, None)
    texts = Texts.load(tmp_path, "train")

    def pretrainer(name: str) -> Trainer:
        device = torch.device(name)
        encoder: Any = RECIPES["transformer"].build(data_spec_of(view, 32)).encoder  # type: ignore[union-attr]
        part, masking = (
            Shards(texts, template_of(view, 32), device),
            Masking(share=0.2, mask_id=4, ordinary=torch.ones(1)),
        )
        model = MaskedLanguageModel(encoder).to(device)
        objective = MaskedLanguage(part, part, masking, training_config(settings), seed=settings.seed)
        return Trainer(model, objective, seed=settings.seed, checkpoints=Checkpoints(tmp_path / "steps"))

    state = pretrainer("cpu").state()
    assert state is not None
    Checkpoints(tmp_path / "steps").save(0, state)
    made = pretrainer("meta")  # stands for a GPU: it has tensors of its own, without values
    made._resume()
    assert made.running.device.type == "meta"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "encoder.safetensors")


def test_a_seed_gives_the_same_weights_and_another_seed_others(
    encoded: Callable[[ViewSettings], Path], tmp_path: Path
) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        settings = PretrainSettings(**SMALL, epochs=1, seed=seed)
        pretrain.run("v", settings, encoded(ViewSettings()), tmp_path / name)
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize("name", ["bert", "bert_cnn", "bert_hth", "bert_hth_pta_paper", "bert_pta", "bert_pta_soft"])
def test_the_weights_arrive(pretrained: tuple[View, Path], name: str) -> None:
    view, folder = pretrained
    model: Any = RECIPES[name].build(data_spec_of(view, LENGTH, folder))
    state = model.encoder.state_dict()
    for key, tensor in weights(folder).items():
        assert torch.equal(state[key], tensor), key
    assert all("head_to_head" in key for key in set(state) - set(weights(folder)))
    torch.manual_seed(0)
    apart: Any = RECIPES["transformer_hth"].build(data_spec_of(view, LENGTH, folder))
    assert apart.encoder.width == 128  # only encoders that can be pretrained take the weights


def test_a_trained_model_needs_it_no_more(
    pretrained: tuple[View, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, folder = pretrained
    params(tmp_path, None, systems={"bert_hth": {"view": "v", "train": {"epochs": 1, "max_length": 48}}})
    (tmp_path / "off").mkdir()
    (tmp_path / "off/about.json").write_text('{"steps": 0}')
    monkeypatch.chdir(tmp_path)
    for start, out, depth in ((folder, "on", 2), (tmp_path / "off", "as_before", 4)):
        monkeypatch.setattr(sys, "argv", ["train", "bert_hth", str(view.folder), str(start), out])
        train.main()
        saved = saved_model(tmp_path / out / "seed-0")
        assert saved.model.depth == depth
        assert str(folder) not in (tmp_path / out / "seed-0/config.json").read_text()


@pytest.mark.parametrize("length", [48, 80])
def test_a_model_may_read_shorter_or_longer_texts(pretrained: tuple[View, Path], length: int) -> None:
    view, folder = pretrained
    model: Any = RECIPES["bert"].build(data_spec_of(view, length, folder))
    positions, known = model.encoder.embedding.position.weight, weights(folder)["embedding.position.weight"]
    assert (len(positions), len(known)) == (length, LENGTH)
    kept = min(length, LENGTH)
    assert torch.equal(positions[:kept], known[:kept])
    assert positions[kept:].isfinite().all()


@pytest.mark.parametrize(
    "small", [{"depth": 3}, {"heads": 4}, {"positions": "sinusoidal"}, {"attention": "correlation"}]
)
def test_other_sizes_are_refused(pretrained: tuple[View, Path], small: dict[str, Any]) -> None:
    view, folder = pretrained
    recipe = RECIPES["bert"].changed(encoder={"small": small}, head={}, train={})
    [name] = small
    with pytest.raises(ParameterError, match=rf"systems.bert: encoder.small.{name} is .* pretrained with"):
        recipe.build(data_spec_of(view, LENGTH, folder), "systems.bert")
    recipe = RECIPES["bert"].changed(encoder={"small": {"dropout": 0.3, "depth": 2}}, head={}, train={})
    assert recipe.build(data_spec_of(view, LENGTH, folder)).encoder.config.dropout == 0.3  # type: ignore[union-attr]


def test_an_encoder_of_another_vocabulary_is_refused(
    pretrained: tuple[View, Path], encoded: Callable[[ViewSettings], Path], tmp_path: Path
) -> None:
    view, folder = pretrained
    assert find_pretrained(folder, view.tokenizer_json) == folder
    other = View.load(encoded(ViewSettings()))
    with pytest.raises(DataError, match="different vocabulary"):
        find_pretrained(folder, other.tokenizer_json)
    with pytest.raises(DataError, match="does not match the view"):
        RECIPES["bert"].build(data_spec_of(other, LENGTH, folder))
    with pytest.raises(InputMissingError, match=r"about\.json is missing"):
        find_pretrained(tmp_path / "nowhere", view.tokenizer_json)


def params(root: Path, view: dict[str, Any] | None, **sections: Any) -> None:
    values = {"dataset": "x", "seeds": [0], "views": {"v": {"tokenizer": "token"} | (view or {})}, "systems": {}}
    values |= sections
    (root / "params.yaml").write_text(yaml.safe_dump(values))


def test_off_says_so_and_imports_nothing_that_learns(tmp_path: Path) -> None:
    params(tmp_path, None)
    code = "import sys; sys.argv = ['pretrain', 'v', 'none', 'new/out'];"
    code += "from epigram.stages.pretrain import main; main(); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'jieba', 'polars')))"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert [path.name for path in (tmp_path / "new/out").iterdir()] == ["about.json"]
    assert find_pretrained(tmp_path / "new/out", tmp_path) is None


def test_on_is_one_line(
    encoded: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params(tmp_path, {"pretrain": {}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pretrain", "v", str(encoded(ViewSettings())), "out"])
    asked: list[PretrainSettings] = []
    monkeypatch.setattr(pretrain, "run", lambda name, settings, *_: asked.append(settings))
    pretrain.main()
    assert asked == [PretrainSettings()]


def further(root: Path, content: bytes) -> str:
    (root / "data/local").mkdir(parents=True)
    (root / "data/local/more.txt").write_bytes(content)
    return "data/local/more.txt"


def test_further_texts_are_read_too(
    encoded: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "\ufeffsalt and salt\r\n\n  \n" + "rain and sun " * 1_000 + "\nunheardof"
    path, view = further(tmp_path, lines.encode()), View.load(encoded(ViewSettings()))
    write_texts(tmp_path, view, Path(path))
    kept, held = Texts.load(tmp_path, "train"), Texts.load(tmp_path, "held")
    assert len(kept) + len(held) == 403
    vocabulary = vocabulary_of(Tokenizer.from_file(str(view.tokenizer_json)))
    last = [vocabulary[i] for i in kept.ids[-2:].values]
    assert last == ["rain", "and", "sun"] * 1_000 + ["[UNK]"]  # all tokens of a long text
    assert "zebra" not in vocabulary  # occurs only in test, which the vocabulary does not use


@pytest.mark.parametrize(
    ("content", "texts", "kind", "said"),
    [
        (b"a", "data/local/mroe.txt", InputMissingError, "views.v.pretrain.texts is 'data/local/mroe.txt'"),
        (b"a", "/etc/passwd", ParameterError, "expected a file in data/local"),
        (b"a", "data/local/../../more.txt", ParameterError, "expected a file in data/local"),
        ("很好\n".encode() + "不错\n".encode("gbk"), None, DataError, "more.txt line 2 is not UTF-8 at byte 0"),
        ("很好\n".encode("utf-16"), None, DataError, "more.txt line 1 is not UTF-8"),
        (b"\n \n", None, DataError, "more.txt contains no text"),
    ],
)
def test_texts_that_cannot_be_read(
    encoded: Callable[[ViewSettings], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    texts: str | None,
    kind: type[EpigramError],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = further(tmp_path, content)
    with pytest.raises(kind, match=said):
        pretrain.run("v", PretrainSettings(**SMALL, texts=texts or path), encoded(ViewSettings()), tmp_path / "new/out")
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
    encoded: Callable[[ViewSettings], Path], tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    view = encoded(ViewSettings(tokenizer="wordpiece", prompt=True))
    with pytest.raises(ParameterError, match=said):
        pretrain.run("v", PretrainSettings(**{**SMALL, **settings}), view, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ({"pretrain": {}, "checkpoint": "x"}, r"views\.v has checkpoint and pretrain; expected one source of"),
        ({"pretrain": {}, "vectors": "x"}, r"views\.v has vectors and pretrain"),
        ({"checkpoint": "y", "vectors": "x"}, r"views\.v has checkpoint and vectors"),
        ({"pretrain": {"epoch": 3}}, r"views\.v\.pretrain\.epoch is not a setting: did you mean 'epochs'\?"),
        ({"pretrain": {"mask_share": 1}}, r"views\.v\.pretrain\.mask_share is 1"),
        ({"pretrain": True}, r"views\.v\.pretrain is True"),
    ],
)
def test_settings_that_are_refused_at_once(tmp_path: Path, view: dict[str, Any], said: str) -> None:
    params(tmp_path, view)
    with pytest.raises(ParameterError, match=said):
        load(tmp_path / "params.yaml")
