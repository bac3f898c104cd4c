"""The training data of a view: token labels, positions of a checkpoint, and encodings that folds share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.models.batches import TextBatches
from epigram.models.predict import predict
from epigram.nn.layers.types import Tokens
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import Split
from epigram.text.settings import ViewSettings
from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
from epigram.training import fit_system
from epigram.training.config import configure
from epigram.training.fitters import Trained
from epigram.training.frozen.known_encodings import Encodings, KnownEncodings
from tests.support.families import SIZES, checkpoint, recipe_of
from tests.support.text_samples import EN, encoded_in
from tests.support.trained import setup_of

LENGTHS = np.array([2, 3, 1, 4, 2, 3, 2, 3, 1, 1])
LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, 1])


class Words:
    """View of ten texts; each word of class 0 has the label 1 or 2, each word of class 1 has the default label."""

    view, language, task, tokenizer = "toy", "en", "single", "token"
    labels, token_labels, characters, vectors, checkpoint = ["marked", "plain"], ["O", "A", "B"], "", None, None
    prefix_ids: list[int] = []  # noqa: RUF012
    suffix_ids: list[int] = []  # noqa: RUF012
    text_columns: list[str] = []  # noqa: RUF012
    join = " "
    pad_id, unk_id, mask_id, vocabulary, max_length = 0, 1, None, 30, 8

    def pos_weight(self) -> np.ndarray:
        return np.ones(30, np.float32)

    def split(self, name: str) -> Split:
        tokens = np.repeat(LABELS, LENGTHS) == 0
        return Split(
            ids=Ragged.from_lengths(np.arange(len(tokens), dtype=np.int32) + 5, LENGTHS),
            labels=LABELS,
            rows=np.arange(10),
            in_train=None,
            token_labels=np.where(tokens, 1 + np.arange(len(tokens)) % 2, 0).astype(np.int16),
            words=np.zeros(len(tokens), np.int32),
            characters=None,
        )


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_the_texts_shows_its_token_labels(share: float) -> None:
    view: Any = Words()
    texts = batches_of(view, "train", template_of(view, 8), token_supervision=(share, 3))
    labels = texts.gather(np.arange(10)).labels
    assert labels is not None
    shown = (labels >= 0).any(1)
    assert int(shown.sum()) == round(10 * share)
    assert all((row[:length] >= 0).all() for row, length in zip(labels[shown], LENGTHS[shown.numpy()], strict=True))
    again = batches_of(view, "train", template_of(view, 8), token_supervision=(share, 3)).gather(np.arange(10)).labels
    assert again is not None
    assert again.equal(labels), "the same seed shows the same texts"


def test_the_plain_class_has_the_fewest_marked_tokens() -> None:
    view: Any = Words()
    assert data_spec_of(view, 8).plain_class == 1
    assert data_spec_of(view, 8).token_labels == ("O", "A", "B")
    assert batches_of(view, "dev", template_of(view, 8)).plain_class == 1


class ThreeClasses(Words):
    """View with an additional class 0 without texts: the labels of the texts are 1 and 2."""

    labels = ["absent", "marked", "plain"]  # noqa: RUF012

    def split(self, name: str) -> Split:
        return replace(super().split(name), labels=LABELS + 1)


def test_a_class_without_text_is_not_the_plain_class() -> None:
    view: Any = ThreeClasses()
    assert data_spec_of(view, 8).plain_class == template_of(view, 8).plain_class == 2


def fitted(view: Any, name: str, **model: Any) -> Trained:
    recipe = RECIPES[name].changed(model=model)
    return fit_system.fit_system(setup_of(recipe, configure(name, recipe), view))


@pytest.mark.parametrize("name", ["tfidf_svm", "random"])
def test_what_is_not_trained_by_gradient_is_fitted_on_the_cpu(
    name: str, encoded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = encoded(EN, "en")
    wanted = fitted(view, name)
    monkeypatch.setattr(
        fit_system, "default_device", lambda: torch.device("meta")
    )  # NumPy cannot read this device, as with a GPU
    found = fitted(view, name)
    assert (found.dev_accuracy, found.parameters) == (wanted.dev_accuracy, wanted.parameters)
    assert {each.device.type for each in found.model.state_dict().values()} == {"meta"}, "where others are trained"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"orders": [2, 3]}, r"model\.orders is \[2, 3\], but no training text has 2 tokens"),
        ({"min_rows": 9}, r"model\.min_rows is 9, but no n-gram occurs in that many training texts"),
    ],
)
def test_settings_of_the_svm_that_leave_no_n_gram(settings: dict[str, Any], said: str, encoded: Any) -> None:
    words = {**EN, "train": [("good", "pos"), ("slow", "neg"), ("great", "pos")]}
    with pytest.raises(ParameterError, match=r"^params\.yaml: systems\.mine\." + said):
        fitted(encoded(words, "en"), "tfidf_svm", **settings)


ROWS = SIZES["max_position_embeddings"]  # of every family's position table
LIMITS = {"bert": 64, "electra": 64, "roberta": 62, "xlm-roberta": 62, "camembert": 62, "mpnet": 62, "ibert": 62}
LONG = "a " * 99


def with_tokenizer(folder: Path) -> str:
    """Write a word-level tokenizer without a length limit to `folder`, and return the folder."""
    entries = {entry: n for n, entry in enumerate(["<unk>", "<pad>", "<s>", "</s>", "<mask>", "a"])}
    tokenizer = Tokenizer(models.WordLevel(entries, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.mark.parametrize(("family", "limit"), LIMITS.items())
def test_positions_of_a_checkpoint(family: str, limit: int, tmp_path: Path) -> None:
    assert (ROWS, SIZES["pad_token_id"]) == (64, 1)  # 64 rows: 64 positions, or 62 after the rows 0 and 1
    (tmp_path / "config.json").write_text(json.dumps({**SIZES, "model_type": family}))
    assert read_checkpoint(with_tokenizer(tmp_path)).positions == limit


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_a_long_text_fills_all_positions_and_no_more(family: str, tmp_path: Path, pos: Path) -> None:
    folder = with_tokenizer(checkpoint(family, tmp_path / family, SIZES))
    settings = ViewSettings(tokenizer="wordpiece", checkpoint=folder)
    rows = {split: [(LONG, "pos"), ("a", "neg")] for split in ("train", "dev", "test")}
    view = encoded_in(tmp_path, pos, rows, "en", settings)
    torch.manual_seed(0)
    model = recipe_of().build(data_spec_of(view, 512)).eval()
    dev = batches_of(view, "dev", template_of(view, 512))
    assert dev.lengths.tolist() == [LIMITS[family], 3]
    assert torch.from_numpy(predict(model, dev, precision="fp32").logits).isfinite().all()
    longer = torch.full((1, LIMITS[family] + 1), 5)
    with pytest.raises((IndexError, RuntimeError)):
        model(Tokens(longer, torch.ones_like(longer, dtype=torch.bool)))


def texts(*rows: list[int]) -> TextBatches:
    """Return texts of the token ids `rows`, between the special tokens 1 and 2."""
    flat = np.array([token for row in rows for token in row], np.int32)
    ids = Ragged.from_lengths(flat, np.array([len(row) for row in rows]))
    return TextBatches(ids, prefix=[1], suffix=[2], max_length=6, pad_id=0, unk_id=3)


class Encoder:
    """Encoder by the sum of the tokens times the weight of a model; it counts the texts that it encodes."""

    def __init__(self) -> None:
        self.encoded = 0

    def __call__(self, model: Any, batches: TextBatches) -> Any:
        self.encoded += len(batches)
        return model.weight.item() * batches.gather(np.arange(len(batches))).ids.sum(1, keepdim=True).numpy()


def model(weight: float = 1.0) -> Any:
    found = nn.Linear(1, 1, bias=False)
    nn.init.constant_(found.weight, weight)
    return found


def test_a_text_is_encoded_once_and_keeps_its_place() -> None:
    encode = Encoder()
    known = KnownEncodings(encode)
    assert_array_equal(known.of(model(), texts([10], [20], [30, 0])), [[13], [23], [33]])
    assert_array_equal(known.of(model(), texts([30, 0], [40], [10])), [[33], [43], [13]])
    assert_array_equal(known.of(model(), texts([10], [20, 20, 20])), [[13], [63]])  # a wider batch
    assert encode.encoded == 5


def test_texts_that_differ_by_padding_or_by_what_is_cut_off() -> None:
    """[30, 0] is longer than [30]; of a text of five tokens, four are read."""
    encode = Encoder()
    known = KnownEncodings(encode)
    known.of(model(), texts([30, 0]))
    known.of(model(), texts([30], [5, 6, 7, 8, 9]))
    known.of(model(), texts([5, 6, 7, 8]))
    assert encode.encoded == 3


def test_other_weights_are_another_encoder() -> None:
    encode = Encoder()
    known, trained = KnownEncodings(encode), model()
    known.of(trained, texts([10]))
    with torch.no_grad():
        trained.weight.mul_(2.0)
    assert_array_equal(known.of(trained, texts([10])), [[26]])
    assert_array_equal(known.of(model(3.0), texts([10])), [[39]])
    assert encode.encoded == 3


@pytest.mark.parametrize("names", [None, np.full((2, 3), 0.1)])
def test_encodings_are_read_as_they_were_written(names: Any, tmp_path: Path) -> None:
    written = Encodings(np.full((5, 3), 1 / 3), np.full((4, 3), 1e-300), names)
    written.write(tmp_path / "kept")
    for read, expected in zip(Encodings.read(tmp_path / "kept"), written, strict=True):
        assert (read is None) == (expected is None)
        assert_array_equal(read, expected)
