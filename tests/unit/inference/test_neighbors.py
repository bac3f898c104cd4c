"""Vectors of texts, and the training texts that are nearest to a text, where both are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import epigram
from epigram.cli import app as cli
from epigram.core import files
from epigram.core.errors import DataError, ParameterError, TryAgainError
from epigram.core.masking import masking
from epigram.inference.explanations.neighbors import write_neighbors
from epigram.inference.explanations.pages import to_html
from epigram.inference.predictors.predictor import Predictor
from epigram.inference.predictors.runtimes import NgramModel
from epigram.models import ensemble, manifest
from epigram.models.manifest import TRAINING_TEXTS, TRAINING_VECTORS
from tests.support.linear_models import TRAIN, ensemble_of_svms, svm
from tests.support.vector_models import LABELS, word_vectors

VECTORS = {"north": (1.0, 0.0), "east": (0.0, 1.0), "far": (3.0, 4.0), "south": (-1.0, 0.0)}
ROWS = {"east": ["room"], "north north east": ["staff", "food"], "far": [], "south": ["room"], "north": ["food"]}


@pytest.fixture
def compass(tmp_path: Path) -> Path:
    """Return the folder of a model with an encoder of two dimensions, and with ROWS as its training texts."""
    folder = word_vectors(tmp_path / "compass", VECTORS)
    write_neighbors(folder, list(ROWS), list(ROWS.values()))
    return folder


def nearest(folder: Path, text: str) -> list[tuple[str, float]]:
    """Return the nearest texts with their similarities; half precision of two numbers has errors up to 0.0002."""
    return [
        (each.text, pytest.approx(each.similarity, abs=2e-4))
        for each in epigram.load(folder).explain([text])[0].similar
    ]


def test_a_vector_is_the_mean_of_the_last_states_with_length_1(compass: Path) -> None:
    model = epigram.load(compass)
    found = model.embed(["north north east", "far", "unknown", " south"])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[2 / 5**0.5, 1 / 5**0.5], [0.6, 0.8], [0, 0], [-1, 0]], atol=1e-6)
    assert model.embed([]).shape == (0, 2)
    with pytest.raises(ParameterError, match="found a single str"):
        model.embed("north")


def test_models_without_an_encoder_say_so_and_an_ensemble_has_the_vectors_of_a_member(
    compass: Path, tmp_path: Path
) -> None:
    (tmp_path / "linear").mkdir()
    linear = svm(tmp_path / "linear", "en", TRAIN["en"])
    model = Predictor(linear)
    with pytest.raises(ParameterError, match=r"linear/model has no encoder"):
        model.embed(["soup"])
    model.saved = replace(model.saved, model=NgramModel.__new__(NgramModel))
    with pytest.raises(ParameterError, match=r"linear/model is exported"):
        model.embed(["soup"])
    weights = {"svm": 0.9, "compass": 0.1}
    both = ensemble.SavedEnsemble(
        folder=tmp_path / "both", labels=LABELS, multi=False, weights=weights, temperature=1.0, thresholds=[0.5] * 3
    )
    ensemble.save(both, ensemble.copy_members({"svm": linear, "compass": compass}))
    assert epigram.load(both.folder).embed(["far"]).tolist() == [pytest.approx([0.6, 0.8])]
    assert nearest(both.folder, "north") == [("north", 1.0), ("north north east", 0.89443), ("far", 0.6)]


def test_the_nearest_texts_come_first_and_no_text_is_unlike(compass: Path) -> None:
    [found, nothing] = epigram.load(compass).explain(["north", " "])
    assert [(each.text, each.labels) for each in found.similar] == [
        ("north", ["food"]),
        ("north north east", ["staff", "food"]),
        ("far", []),
    ]
    assert found.similar[0].similarity == 1.0
    assert [each.similarity for each in found.similar[1:]] == pytest.approx([2 / 5**0.5, 0.6], abs=2e-4)
    assert nothing.similar == []
    assert nearest(compass, "unknown") == []


def test_equally_near_texts_are_in_the_order_of_train(tmp_path: Path) -> None:
    folder = word_vectors(tmp_path, VECTORS)
    write_neighbors(folder, [*(f"north {n}" for n in range(7)), "far"], [["food"]] * 8)
    assert nearest(folder, "north") == [(f"north {n}", 1.0) for n in range(5)]
    assert nearest(folder, "far") == [("far", 1.0), *((f"north {n}", 0.6) for n in range(4))]


def test_a_linear_model_compares_tfidf_features(tmp_path: Path) -> None:
    folder = svm(tmp_path, "en", TRAIN["en"])
    write_neighbors(folder, [text for text, _ in TRAIN["en"][:4]], [[label] for _, label in TRAIN["en"][:4]])
    assert not (folder / TRAINING_VECTORS).exists()
    first, *rest = nearest(folder, "nice clerk")
    assert first == ("nice clerk", 1.0)
    [(text, similarity)] = rest  # the only other text with a word of it
    nice, clerk, soup, pair = np.log(13 / np.array([7, 4, 7, 4])) + 1  # IDF of 12 texts; the pairs are as rare as clerk
    product = nice**2 / np.linalg.norm([nice, clerk, pair]) / np.linalg.norm([nice, soup, pair])
    assert (text, similarity) == ("nice soup", pytest.approx(product, abs=1e-3))
    assert nearest(folder, "unknown words") == []
    found = epigram.load(folder).explain(["unknown words", " ", "nice clerk"])
    assert [[each.text for each in one.similar] for one in found] == [[], [], ["nice clerk", "nice soup"]]
    assert epigram.load(folder).explain([" "])[0].similar == []


def test_texts_are_encoded_together_and_the_file_may_have_any_size(
    compass: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, encoded, embed = epigram.load(compass), list[list[str]](), Predictor.embed
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 10)
    monkeypatch.setattr(Predictor, "embed", lambda self, texts: embed(self, encoded.append(texts) or texts))
    found = model.neighbors.find(["south", "far", "north"])
    assert [each[0].text for each in found] == ["south", "far", "north"]
    assert encoded == [["south", "far", "north"]]


def test_the_member_with_the_largest_weight_has_the_texts_of_an_ensemble(tmp_path: Path) -> None:
    folder = ensemble_of_svms(tmp_path)
    write_neighbors(folder, ["soup soup", "large room"], [["food"], ["room"]])
    assert (folder / "members/second" / TRAINING_TEXTS).exists() and not list(folder.glob("members/first/training*"))
    assert nearest(folder, "soup soup") == [("soup soup", 1.0)]


def test_files_that_were_changed_or_do_not_fit_are_refused(compass: Path) -> None:
    loaded, texts = epigram.load(compass), compass / TRAINING_TEXTS
    content = texts.read_text("utf-8")
    texts.write_text(content.replace("far", "fat"), "utf-8")
    with pytest.raises(DataError, match=r"training_texts\.jsonl was changed"):
        epigram.load(compass)
    with pytest.raises(TryAgainError, match="changed after it was loaded"):
        _ = loaded.neighbors
    for wrong in (content.partition("\n")[2], "", '{"text": 1, "labels": []}\n', "[]\n", "{\n"):
        texts.write_text(wrong, "utf-8")
        manifest.write(compass, manifest.read_facts(compass))
        with pytest.raises(DataError, match="does not have"):
            nearest(compass, "north")
    texts.write_text(content, "utf-8")
    save_file({"vectors": load_file(compass / TRAINING_VECTORS)["vectors"][:, :1].copy()}, compass / TRAINING_VECTORS)
    manifest.write(compass, manifest.read_facts(compass))
    for path in (compass / TRAINING_VECTORS, texts):  # both may be missing, but not the vectors alone
        with pytest.raises(DataError, match=r"training_vectors\.safetensors does not have a vector for each text"):
            nearest(compass, "north")
        path.unlink()
    assert nearest(compass, "north") == []


def test_the_texts_and_the_vectors_are_masked(tmp_path: Path) -> None:
    folder = word_vectors(tmp_path, VECTORS | {"a@b.com": (0.0, -1.0)})
    with masking(["email"]):
        write_neighbors(folder, ["north a@b.com"], [["food"]])
    assert nearest(folder, "north") == [("north •@•.•••", 1.0)]
    assert "a@b" not in (folder / TRAINING_TEXTS).read_text("utf-8")


def test_terminal_page_json_and_server_show_them(
    compass: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["epigram", "explain", str(compass), "north"])
    cli.app()
    lines = [line.split() for line in capsys.readouterr().out.strip().splitlines()]
    assert lines[-4:] == [
        ["similar", "training", "texts"],
        ["1.000", "food", "north"],
        ["0.894", "staff,", "food", "north", "north", "east"],
        ["0.600", "–", "far"],
    ]
    found = epigram.load(compass).explain(["north"])
    assert '<td class="number">0.894</td><td>staff, food</td><td>north north east</td>' in to_html(found)
    assert json.loads(json.dumps(found[0].to_dict()))["similar"][0] == {
        "text": "north",
        "labels": ["food"],
        "similarity": 1.0,
    }


def test_the_server_answers_with_them(compass: Path) -> None:
    pytest.importorskip("prometheus_client", reason="requires the extra serve")
    from fastapi.testclient import TestClient

    from epigram.inference.server.app import create_app
    from epigram.inference.server.served_model import ServedModel
    from epigram.inference.server.settings import ServerSettings

    served = ServedModel("m0", compass, ServerSettings(), 0.0)
    with TestClient(create_app([served], ServerSettings())) as server:
        answer = server.post("/v1/explain", json={"text": "north"}).json()
    assert [each["text"] for each in answer["similar"]] == ["north", "north north east", "far"]


def test_a_model_without_the_files_has_no_similar_texts(model: Path) -> None:
    assert epigram.load(model).explain(["nice soup"])[0].similar == []
