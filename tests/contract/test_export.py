"""Exported models: each system predicts the same from its ONNX graph, or the export reports why it is impossible."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from epigram.cli import app as cli
from epigram.core.errors import DataError, ParameterError
from epigram.core.extras import MissingPackageError
from epigram.core.files import sha256
from epigram.inference.onnx import graph, quantize
from epigram.inference.onnx.export import PACKAGES, export
from epigram.inference.predictors.predictor import Predictor
from epigram.inference.predictors.runtimes import GraphModel, open_graph
from epigram.models.precision import resolve_precision
from epigram.models.predict import predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.nn.layers.types import Prediction
from epigram.text.dataset.pos_words import PosWords
from tests.support.model_seeds import sealed
from tests.support.saved_systems import saved
from tests.support.small_systems import LABELS, NAMES, TOKEN_LABELS, distinct, recipe_of, texts_of

for package in PACKAGES:
    pytest.importorskip(package, reason="requires the extra onnx")

REFUSED = {
    "random": "it predicts at random",
    "xlnet": "PyTorch cannot convert",
}
TEXTS = ["w7 w22 w30 w31", "w9", "", "w12 unheard w55", "w8 w40 " * 20]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a model and its export; tests must not change them."""
    folder = tmp_path_factory.mktemp("exported")
    export(saved("textcnn", folder), folder / "out")
    return folder / "model", folder / "out"


# Each module occurs in another system that is exported.
EXPORTED_ALIKE = {"bert_hth_pta_paper", "bilstm_tagger", "embedding_linear", "setfit"}
# An export takes seconds for each layer. Layers are alike; a head that combines those of an encoder has all of them.
SHALLOW: dict[str, dict[str, Any]] = {
    "pretrained": {"small": {"width": 32, "hidden": 48, "depth": 1, "heads": 2}},
    "transformer": {"depth": 1},
    "universal_transformer": {"depth": 2},
    "semantic_perceptron": {"depth": 2},
    "dpcnn": {"levels": 2},
}


def shallow(name: str) -> Recipe:
    """Return the recipe of a small system with few layers."""
    recipe = recipe_of(name)
    changes = {} if "layers" in recipe.head else SHALLOW.get(recipe.encoder.get("kind", ""), {})
    return recipe.changed(encoder=changes) if changes else recipe


@pytest.mark.parametrize("name", distinct(name for name in NAMES if name not in EXPORTED_ALIKE))
def test_a_graph_says_what_its_model_says_or_is_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = shallow(name)
    model, out, texts = saved(name, tmp_path, recipe=recipe), tmp_path / "out", texts_of(recipe)
    if name in REFUSED:
        with pytest.raises(ParameterError, match=f"system {name} cannot be exported: {REFUSED[name]}"):
            export(model, out)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "tokenizer.json"]
        return
    export(model, out)
    itself, graph = load(model).model, load(out, open_graph).model
    for size in (1, 7, 32):
        monkeypatch.setattr("epigram.models.predict.BATCH_LIMITS", (size, 32_768))
        said, wanted = (predict(one, texts, precision="fp32") for one in (graph, itself))
        np.testing.assert_allclose(said.logits, wanted.logits, atol=1e-4)
        assert (said.tokens is None) == (wanted.tokens is None)
        if said.tokens is not None and wanted.tokens is not None:
            np.testing.assert_allclose(said.tokens, wanted.tokens, atol=1e-4)


@pytest.mark.parametrize(("beam", "most"), [(1, None), (2, 2)])
def test_a_graph_chooses_the_labels_that_the_decoder_chooses(beam: int, most: int | None, tmp_path: Path) -> None:
    """Texts end after one, two or three labels, so that beams end at different steps."""
    recipe = recipe_of("cnle").changed(head={"beam": beam, "max_labels": most})
    model, out, texts = saved("cnle", tmp_path, recipe=recipe, multi=True), tmp_path / "out", texts_of(recipe)
    export(model, out)
    wanted, said = (predict(each, texts, precision="fp32") for each in (load(model).model, load(out, open_graph).model))
    np.testing.assert_allclose(said.logits, wanted.logits, atol=1e-4)
    chosen = (wanted.logits > 0).sum(1)
    assert ((said.logits > 0) == (wanted.logits > 0)).all()
    assert len(np.unique(chosen)) > 1 and chosen.max() == (most or 3)


def test_a_search_of_too_many_steps_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epigram.inference.onnx.export.MAX_STEPS", 2)
    with pytest.raises(ParameterError, match=r"it chooses up to 3 labels .* head\.max_labels of at most 2"):
        export(saved("cnle", tmp_path, multi=True), tmp_path / "out")


Told = tuple[str, dict[str, float], list[str]]  # label or labels, probabilities, labels of the words


def read_off(folder: Path, *, multi: bool) -> list[Told]:
    """Return the predictions of the model for TEXTS, computed from its logits one text at a time in float32."""
    model, texts = load(folder).model.eval(), Predictor(folder).batches(TEXTS)
    found: list[Told] = []
    for row in range(len(TEXTS)):
        with torch.inference_mode():
            out = model(texts.gather(np.array([row])))
        powers = np.exp(out.logits[0].double().numpy())
        p = powers / (1 + powers) if multi else powers / powers.sum()
        chosen = [name for name, sure, cut in zip(LABELS, p, (0.3, 0.5, 0.6), strict=True) if sure > cut]
        best = max(zip(p.tolist(), LABELS, strict=True))[1]
        each = [] if out.tokens is None else out.tokens[0].tolist()
        words = [max(zip(word, TOKEN_LABELS, strict=True))[1] for word in each]
        found.append((", ".join(chosen) if multi else best, dict(zip(LABELS, p.tolist(), strict=True)), words))
    return found


@pytest.mark.parametrize(("name", "multi"), [("textcnn", True), ("bert_pta_soft", False), ("mhal_joint", False)])
def test_the_predictor_s_answers_are_what_the_logits_say(name: str, multi: bool, tmp_path: Path) -> None:
    model = saved(name, tmp_path, recipe=shallow(name), multi=multi)
    export(model, tmp_path / "out")
    for folder, exact in ((tmp_path / "out", 1e-4), (model, 0.02)):  # the model itself predicts in bfloat16
        answers = Predictor(folder).predict(TEXTS)
        for text, said, (label, p, words) in zip(TEXTS, answers, read_off(model, multi=multi), strict=True):
            if not text.strip():
                assert (said.labels, said.probability, said.words) == ([], 0.0, [])
                continue
            assert said.label == label
            assert said.probabilities == pytest.approx(p, abs=exact)
            assert said.probability == max(said.probabilities.values())
            if name == "mhal_joint" and text:
                assert [(word.text, word.label) for word in said.words] == list(
                    zip(text.split()[: len(words)], words, strict=True)
                )
        assert any(said.words for said in answers) == (name == "mhal_joint")
    assert Predictor(tmp_path / "out").predict([]) == []


def reuse_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next exports of the same model copy the graph in `folder`, which takes seconds to trace."""
    monkeypatch.setattr(graph, "write_graph", lambda _, path: shutil.copyfile(folder / "model.onnx", path))


def test_int8_is_smaller_and_nearly_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quantize, "same_labels", lambda *_: 0.984)
    monkeypatch.setattr(quantize, "milliseconds", lambda *_: [1.0, 2.0, 1.5])
    model = saved("transformer", tmp_path, recipe=shallow("transformer"))
    export(model, tmp_path / "fp32")
    reuse_graph(tmp_path / "fp32", monkeypatch)
    export(model, tmp_path / "int8", int8=True)
    sizes = [(tmp_path / name / "model.onnx").stat().st_size for name in ("fp32", "int8")]
    assert sizes[1] < sizes[0]
    said, wanted = (Predictor(tmp_path / name).probabilities(TEXTS) for name in ("int8", "fp32"))
    np.testing.assert_allclose(said, wanted, atol=0.05)
    assert not np.array_equal(said, wanted)
    card, own = (tmp_path / "int8/README.md").read_text(encoding="utf-8"), resolve_precision("auto", quantize.CPU)
    assert "graph (ONNX, int8)" in card
    note = f"int8 takes 1.0 ms for 32 texts, the fp32 graph 2.0 ms, the model itself ({own}) 1.5 ms. It gives 98.4% of"
    assert note in card and f"transformer: {note}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("times", "slower"),
    [([2.5, 1.25, 1.5], "the fp32 graph"), ([2.5, 3.0, 1.5], "the model itself"), ([2.5, 2.5, 3.0], "the fp32 graph")],
)
def test_int8_is_refused_where_the_graph_or_the_model_itself_is_as_fast(
    exported: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: list[float], slower: str
) -> None:
    monkeypatch.setattr(quantize, "milliseconds", lambda *_: times)
    reuse_graph(exported[1], monkeypatch)
    model = saved("textcnn", tmp_path)
    with pytest.raises(ParameterError, match=rf"int8 is not faster than {slower}.* for textcnn .*\(int8 2.5 ms for 32"):
        export(model, tmp_path / "out", int8=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "tokenizer.json"]


def test_two_graphs_are_timed_on_the_same_batch(exported: tuple[Path, Path]) -> None:
    model, out = exported
    graph = GraphModel(out / "model.onnx", multi=False)
    times = quantize.milliseconds(load(model), graph, quantize.own_predictions(load(model)), graph)
    assert len(times) == 3 and min(times) > 0


@pytest.mark.parametrize(("multi", "share"), [(False, 0.75), (True, 0.5)])
def test_labels_are_compared_text_by_text(exported: tuple[Path, Path], multi: bool, share: float) -> None:
    """The largest logit moves in the last of four texts; the set of those above 0 differs in the third one as well.

    A threshold of 0.5 is a logit of 0.
    """
    known = replace(load(exported[0]), thresholds=[0.5, 0.5])
    known.model.multi = multi
    first = torch.tensor([[3.0, 1.0], [-1.0, -2.0], [2.0, -1.0], [1.0, 2.0]])
    second = torch.tensor([[2.0, 1.0], [-3.0, -9.0], [2.0, 1.0], [2.0, -1.0]])
    answers = [lambda _, logits=logits: Prediction(logits) for logits in (first, second)]
    assert quantize.same_labels(known, *answers) == share


def test_label_sets_are_those_above_the_thresholds_of_the_model(exported: tuple[Path, Path]) -> None:
    known = replace(load(exported[0]), thresholds=[0.2, 0.5])
    known.model.multi = True
    logits = [torch.tensor([[-1.0, -1.0]]), torch.tensor([[-2.0, -1.0]])]  # 0.27 and 0.12 for the first label
    models = [lambda _, given=given: Prediction(given) for given in logits]
    assert quantize.same_labels(known, *models) == 0.0


def test_the_model_itself_answers_as_the_predictor_does(exported: tuple[Path, Path]) -> None:
    model = exported[0]
    predictor = Predictor(model)
    texts = predictor.batches(TEXTS[:1])
    expected = predict(predictor.saved.model, texts).logits
    answer = quantize.own_predictions(load(model))(texts.gather(np.arange(1))).logits
    np.testing.assert_array_equal(answer.float().numpy(), expected)


def test_the_command_writes_a_folder_that_predict_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = saved("textcnn", tmp_path), str(tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["epigram", "export", str(model), out])
    cli.app()
    [line] = capsys.readouterr().out.splitlines()  # and no progress output of the exporter
    assert line.startswith(f"{out}: exported (")
    shown = []
    for folder in (str(model), out):
        monkeypatch.setattr("sys.argv", ["epigram", "predict", folder, *TEXTS])
        cli.app()
        lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
        shown.append([(label, text) for label, _, text in lines])
    assert shown[0] == shown[1] and len(shown[0]) == len(TEXTS)


def test_an_exported_model_only_answers_and_is_what_was_written(exported: tuple[Path, Path], tmp_path: Path) -> None:
    model, out = exported[0], tmp_path / "out"
    shutil.copytree(exported[1], out)
    onnx = pytest.importorskip("onnx", reason="requires the extra onnx")
    standard = [each.version for each in onnx.load(out / "model.onnx").opset_import if not each.domain]
    assert standard == [20], "the opset that sorting is written in"
    with pytest.raises(ParameterError, match="out already exists"):
        export(model, out)
    with pytest.raises(ParameterError, match="out is an exported model, which can only predict"):
        export(out, tmp_path / "again")
    with (out / "model.onnx").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match=r"model\.onnx was changed after the model was saved"):
        Predictor(out)


@pytest.mark.parametrize("inner", ["onnx", "deep/onnx", "../model/onnx"])
def test_the_folder_of_the_model_gets_no_other_files(inner: str, tmp_path: Path) -> None:
    model = saved("textcnn", tmp_path)
    (tmp_path / "link").symlink_to(model)
    with pytest.raises(ParameterError, match="onnx is inside the model's folder"):
        export(model, model / inner)
    with pytest.raises(ParameterError, match="onnx is inside the model's folder"):
        export(tmp_path / "link", model / "onnx")
    Predictor(model)


def test_a_link_in_the_place_of_the_export_is_kept(exported: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "not mounted")
    with pytest.raises(ParameterError, match="out already exists"):
        export(exported[0], tmp_path / "out")
    assert (tmp_path / "out").is_symlink()


def test_a_link_that_moves_during_the_export_mixes_no_models(
    exported: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        shutil.copytree(exported[0], tmp_path / name)
    (tmp_path / "second/labels.json").write_text('["other", "labels"]')
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "first")

    def move(_: Any, path: Path) -> None:
        shutil.copyfile(exported[1] / "model.onnx", path)
        link.unlink()
        link.symlink_to(tmp_path / "second")

    monkeypatch.setattr(graph, "write_graph", move)
    export(link, tmp_path / "out")
    assert (tmp_path / "out/labels.json").read_text() == (tmp_path / "first/labels.json").read_text()


def test_weights_next_to_a_graph_are_refused(exported: tuple[Path, Path], tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx", reason="requires the extra onnx")
    out = Path(shutil.copytree(exported[1], tmp_path / "out"))
    graph = onnx.load(out / "model.onnx")
    onnx.save_model(
        graph, out / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )  # fmt: skip
    assert (out / "weights.bin").stat().st_size > 1_000
    sealed(out)
    with pytest.raises(DataError, match=r"weights\.bin is not listed in manifest\.json"):
        Predictor(out)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["sha256"]["weights.bin"] = sha256(out / "weights.bin")
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"manifest\.json does not list the files of a model"):
        Predictor(out)


def test_a_graph_with_more_logits_than_labels_is_refused(exported: tuple[Path, Path], tmp_path: Path) -> None:
    out = Path(shutil.copytree(exported[1], tmp_path / "out"))
    (out / "labels.json").write_text(json.dumps(LABELS[:2]))
    sealed(out)
    predictor = Predictor(out)
    for ask in (predictor.predict, predictor.probabilities):
        with pytest.raises(DataError, match="out has 2 labels, but its model outputs 3 classes; restore the folder"):
            ask(TEXTS)


@pytest.mark.parametrize(
    "logits",
    [np.zeros(2, np.float32), np.zeros((3, 3), np.float32), np.zeros((2, 3), np.int64), [0.0], np.array([["a"]] * 2)],
)
def test_a_graph_whose_output_is_no_table_of_logits_is_refused(
    exported: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, logits: Any
) -> None:
    predictor = Predictor(exported[1])
    monkeypatch.setattr(predictor.saved.model, "session", SimpleNamespace(run=lambda *_: [logits]))
    with pytest.raises(DataError, match=r"model\.onnx returns logits of an unexpected shape or type"):
        predictor.predict(["a text", "another"])


def test_the_manifest_of_an_export_lists_every_file(exported: tuple[Path, Path]) -> None:
    out = exported[1]
    files = {path.name for path in out.iterdir()}
    assert files == {"README.md", "config.json", "labels.json", "manifest.json", "model.onnx", "tokenizer.json"}
    assert set(json.loads((out / "manifest.json").read_text())["sha256"]) == files - {"manifest.json"}


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("Failed to allocate memory for requested buffer of size 9", RuntimeError, "Failed to allocate memory"),
        ("Got invalid dimensions for input", DataError, "export the model again"),
    ],
)
def test_memory_that_runs_out_is_no_fault_of_the_graph(
    exported: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, fault: str, error: type[Exception], said: str
) -> None:
    def run(*_: object) -> None:
        raise RuntimeError(fault)

    predictor = Predictor(exported[1])
    monkeypatch.setattr(predictor.saved.model, "session", SimpleNamespace(run=run))
    with pytest.raises(error, match=said):
        predictor.predict(["a text"])


def test_without_the_packages_one_is_told_what_to_install(
    exported: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out = exported
    monkeypatch.setattr("epigram.core.extras.find_spec", lambda name: None if name == "onnxruntime" else name)
    with pytest.raises(MissingPackageError, match=r"needs onnxruntime, which is .* pip install .*\[onnx\]"):
        Predictor(out)
    monkeypatch.setattr("epigram.core.extras.find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(MissingPackageError, match=r"export needs onnxscript, which is .* pip install .*\[onnx\]"):
        export(model, tmp_path / "again")


def test_words_have_their_places_in_the_text_as_it_is_given(tmp_path: Path) -> None:
    predictor = Predictor(saved("mhal_joint", tmp_path))
    text = "\u3000 w7 w22\n"
    given, bare, blank = predictor.predict([text, "w7 w22", " \n"])
    assert [(word.start, word.end, word.text) for word in given.words] == [(2, 4, "w7"), (5, 8, "w22")]
    assert [word.label for word in given.words] == [word.label for word in bare.words]
    assert given.probabilities == pytest.approx(bare.probabilities, abs=1e-6)
    assert all(word.text == "" for word in blank.words)


def test_a_graph_reads_the_weights_of_words(tmp_path: Path) -> None:
    words = PosWords(language="zh", pieces=True, notional=1.0, function=0.5, weights={"w9": 0.1}, frequencies={})
    model = saved("transformer_f", tmp_path, recipe=shallow("transformer_f"), pos_words=asdict(words))
    export(model, tmp_path / "out")
    exported = Predictor(tmp_path / "out")
    assert exported.batches(["w7 w9"]).gather(np.arange(1)).word_weight is not None
    for text in ("w7 w9", "w9 w8 w22", ""):
        expected = predict(load(model).model, Predictor(model).batches([text]), precision="fp32").logits
        np.testing.assert_allclose(predict(exported.saved.model, exported.batches([text])).logits, expected, atol=1e-4)
