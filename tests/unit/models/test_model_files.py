"""A model's folder: its files are those of the manifest, and sizes are compared before memory is allocated."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from epigram import hf
from epigram.core.errors import DataError, InputMissingError, ParameterError, TryAgainError
from epigram.core.files import read_json, sha256, write_json
from epigram.inference.predictors import predictor
from epigram.inference.predictors.predictor import Predictor
from epigram.models import manifest, sizes
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.recipe import Recipe
from epigram.models.serialization import load, save, save_changed
from epigram.models.sizes import check_numbers, check_sizes
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.ngrams import SPELLED
from epigram.nn.layers.types import DataSpec
from epigram.text.tokens.tokenizers import character_tokenizer
from tests.support.linear_models import TRAIN, svm
from tests.support.model_seeds import WORDS, saved_model, sealed

FILES = ["README.md", "config.json", "history.json", "labels.json", "model.safetensors", "tokenizer.json"]
HISTORY = [{"epoch": 1.0, "dev": 0.5}, {"epoch": 2.0, "dev": 0.75}]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model with a history, shared by all tests; do not change it."""
    folder = tmp_path_factory.mktemp("model") / "model"
    saved_model(folder, HISTORY)
    return folder


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of the model's folder."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def listed(folder: Path) -> dict[str, str]:
    checksums: dict[str, str] = json.loads((folder / "manifest.json").read_text())["sha256"]
    return checksums


def test_the_manifest_lists_every_file(whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == sorted([*FILES, "manifest.json"])
    assert listed(whole) == {name: sha256(whole / name) for name in FILES}


def test_a_model_that_is_saved_again_keeps_its_history(whole: Path, tmp_path: Path) -> None:
    saved = load(whole)
    save_changed(tmp_path / "again", saved, saved.model, {"dev_accuracy": 0.5})
    assert json.loads((tmp_path / "again/history.json").read_text()) == HISTORY
    assert sorted(listed(tmp_path / "again")) == FILES
    assert load(tmp_path / "again").labels == ["bad", "good"]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_refused(model: Path, name: str) -> None:
    content = (model / name).read_bytes()
    (model / name).write_bytes(content + b" ")
    with pytest.raises(DataError, match=rf"{name} was changed after the model was saved"):
        load(model)
    (model / name).unlink()
    with pytest.raises(InputMissingError, match=name):
        load(model)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "modeling_evil.py", ".hidden", "weights.bin", "more"])
def test_a_file_that_the_manifest_does_not_list_is_refused(model: Path, name: str) -> None:
    if name == "more":
        (model / name).mkdir()
    else:
        (model / name).write_text("{}")
    with pytest.raises(DataError, match=rf"{name} is not listed in manifest\.json; remove it"):
        load(model)


@pytest.mark.parametrize(
    "nested", ["members/z/evil.py", "members/evil.py", "members", "members/z/manifest.json", "more/evil.py"]
)
def test_a_nested_file_or_folder_is_refused(model: Path, nested: str) -> None:
    place = model / nested
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.suffix:
        place.write_text("{}")
    else:
        place.mkdir()
    for read in (manifest.verify, load):
        with pytest.raises(DataError, match=r"is not listed in manifest\.json; remove it"):
            read(model)


@pytest.mark.parametrize("content", ["", "junk", "[]", "{}", '{"dsseEnvelope": 1}', "link", "folder"])
def test_a_signature_that_is_none_is_refused(model: Path, content: str) -> None:
    path = model / "model.sig"
    if content == "folder":
        path.mkdir()
    elif content == "link":
        (model.parent / "model.sig").write_text('{"dsseEnvelope": {}}')
        path.symlink_to(model.parent / "model.sig")
    else:
        path.write_text(content)
    for read in (manifest.verify, load):
        with pytest.raises(DataError, match=r"model\.sig is not (a signature|valid JSON)"):
            read(model)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(model: Path, value: float) -> None:
    weights = load_file(model / "model.safetensors")
    name = sorted(weights)[-1]
    weights[name].view(-1)[0] = value
    save_file(weights, model / "model.safetensors")
    sealed(model)
    with pytest.raises(DataError, match=rf"model\.safetensors: {name} is NaN or infinite"):
        load(model)


def test_a_prediction_that_is_no_number_is_an_error(model: Path) -> None:
    """Weights that are finite, but whose products are not."""
    weights = load_file(model / "model.safetensors")
    save_file({name: tensor * 1e30 for name, tensor in weights.items()}, model / "model.safetensors")
    sealed(model)
    with pytest.raises(DataError, match="predicts NaN; restore the folder"):
        Predictor(model).predict(["好店差"])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("labels.json", lambda labels: [*labels, "more"]),
        ("labels.json", lambda labels: labels[:1]),
        ("config.json", lambda config: config | {"thresholds": [0.5, float("nan")]}),
        ("config.json", lambda config: config | {"thresholds": [0.5, 1.5]}),
        ("config.json", lambda config: config | {"thresholds": [0.5]}),
        ("config.json", lambda config: config | {"frame": config["frame"] | {"vocabulary": len(WORDS) + 1}}),
        ("config.json", lambda config: config | {"frame": config["frame"] | {"vocabulary": len(WORDS) - 1}}),
        ("config.json", lambda config: config | {"task": "other"}),
    ],
)
@pytest.mark.parametrize("kind", ["convolution", "svm"])
def test_parts_that_do_not_fit_are_refused(
    name: str, change: Callable[[Any], Any], kind: str, model: Path, tmp_path: Path
) -> None:
    folder = model if kind == "convolution" else svm(tmp_path, "en", TRAIN["en"])
    Predictor(folder)
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(change(content)))
    sealed(folder)
    with pytest.raises(DataError):
        Predictor(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys", lambda keys: keys[:-1]),
        ("keys", lambda keys: keys.flip(0)),
        ("keys", lambda keys: keys.int()),
        ("keys", lambda keys: keys + 10**9),
        ("keys", lambda keys: keys - keys.min()),
        ("keys", lambda keys: torch.cat([keys[:1] + SPELLED, keys[1:]])),
        ("weight", lambda weight: weight[:-1]),
        ("weight", lambda weight: weight[:, :-1]),
        ("idf", lambda idf: idf[:-1]),
        ("bias", lambda bias: bias[:-1]),
        ("scale", lambda scale: scale.reshape(1)),
    ],
)
def test_parts_of_an_svm_that_do_not_fit_are_refused(
    name: str, change: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    folder = svm(tmp_path, "en", TRAIN["en"])
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, name: change(weights[name]).contiguous()}, folder / "model.safetensors")
    sealed(folder)
    with pytest.raises(DataError, match="does not fit the model"):
        load(folder)


@pytest.mark.parametrize("name", ["extra.json", "../outside.json", "/etc/hostname", "."])
def test_a_manifest_that_lists_other_files_is_refused(model: Path, name: str) -> None:
    content = json.loads((model / "manifest.json").read_text())
    for path in (model / "extra.json", model / "../outside.json"):
        path.write_text("{}")
    if name != "extra.json":
        (model / "extra.json").unlink()
    content["sha256"][name] = sha256(model / "extra.json") if name == "extra.json" else "0" * 64
    (model / "manifest.json").write_text(json.dumps(content))
    for read in (manifest.verify, load):
        with pytest.raises(
            DataError, match=r"manifest\.json (does not list the files of a model|lists .*not a file name)"
        ):
            read(model)


READERS: list[Any] = [
    AutoConfig,
    AutoTokenizer,
    AutoModelForSequenceClassification,
    hf.EpigramConfig,
    hf.EpigramTokenizer,
    hf.EpigramForSequenceClassification,
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_the_transformers_library_gets_no_folder_that_was_changed(model: Path, reader: Any) -> None:
    reader.from_pretrained(model)
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(DataError, match=r"tokenizer_config\.json is not listed"):
        reader.from_pretrained(model)
    (model / "tokenizer_config.json").unlink()
    (model / "tokenizer.json").write_text((model / "tokenizer.json").read_text() + " ")
    with pytest.raises(DataError, match=r"tokenizer\.json was changed after the model was saved"):
        reader.from_pretrained(model)


FOREIGN: dict[str, Any] = {
    "attn_implementation": "somebody/kernel",
    "_attn_implementation": "somebody/kernel",
    "_experts_implementation": "somebody/kernel",
    "per_layer_config": {"0": {}},
    "auto_map": {"AutoModelForSequenceClassification": "evil.C"},
}


@pytest.mark.parametrize("key", FOREIGN)
def test_the_transformers_library_sees_only_epigram_s_settings(model: Path, key: str) -> None:
    before = Predictor(model).probabilities(["好"])
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, key: FOREIGN[key]}))
    sealed(model)
    found = AutoModelForSequenceClassification.from_pretrained(model)
    assert found.config._attn_implementation in {None, "eager", "sdpa"}
    assert found.config._experts_implementation in {None, "eager"}
    assert not hasattr(found.config, "auto_map")
    assert found.config.system == "cnn"
    assert (Predictor(model).probabilities(["好"]) == before).all()


def test_files_that_are_exchanged_after_they_were_checked_are_not_used(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new weights are valid and have the right shapes; only the checksum differs."""
    other = model.with_name("other")
    weights = load_file(model / "model.safetensors")
    save_file({name: -tensor for name, tensor in weights.items()}, other)
    verify = manifest.verify

    def then_exchange(folder: Path) -> set[str]:
        names = verify(folder)
        other.replace(folder / "model.safetensors")
        return names

    monkeypatch.setattr(manifest, "verify", then_exchange)
    with pytest.raises(TryAgainError, match="model changed while it was read; try again"):
        load(model)


def test_a_link_that_moves_to_another_model_gives_no_mixture(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion, second = tmp_path / "champion", shutil.copytree(model, tmp_path / "second")
    champion.symlink_to(model)

    def then_promote(folder: Path, *rest: Any) -> Any:
        saved = load(folder, *rest)
        champion.unlink()
        champion.symlink_to(second)
        return saved

    monkeypatch.setattr(predictor, "load", then_promote)
    with pytest.raises(TryAgainError, match="champion changed while it was read"):
        Predictor(champion)


def test_a_name_that_no_system_can_look_for_is_missing(model: Path) -> None:
    manifest_json = json.loads((model / "manifest.json").read_text())
    for name in ("x" * 5_000, ".."):
        changed = manifest_json | {"sha256": manifest_json["sha256"] | {name: "0" * 64}}
        (model / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(InputMissingError, match="is missing; restore the model's folder"):
            load(model)


def test_settings_of_many_gigabytes_are_refused_unread(model: Path) -> None:
    """The sparse file takes no disk space."""
    with (model / "manifest.json").open("r+b") as file:
        file.truncate(1 << 36)
    with pytest.raises(DataError, match=r"manifest\.json is larger than 256 MB"):
        load(model)


def test_weights_of_a_kind_that_no_model_has_are_refused(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in weights.items()}, model / "model.safetensors")
    sealed(model)
    with pytest.raises(DataError, match=r"has weights of the unsupported type torch\.float8_e4m3fn"):
        load(model)


SMALL = {"width": 4, "depth": 1, "heads": 1, "hidden": 4}


def saved(folder: Path, encoder: dict[str, Any] | None) -> Path:
    """Save a classifier with this encoder, or a linear SVM."""
    character_tokenizer(WORDS).save(str(folder / "tokenizer.json"))
    recipe = Recipe(name="toy", about="", paper="", view="", encoder=encoder or {})
    recipe = recipe if encoder else recipe.changed(model={"kind": "linear_svm"})
    frame = TextTemplate(
        language="zh", max_length=12, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=4, vocabulary=len(WORDS)
    )
    model = recipe.build(DataSpec(vocabulary=len(WORDS), classes=2, max_length=12))
    tokenizer = folder / "tokenizer.json"
    save(folder / "model", model, recipe=recipe, frame=frame, labels=["a", "b"], tokenizer=tokenizer, facts={})
    return folder / "model"


def changed(folder: Path, path: str, value: Any) -> None:
    """Set a value of config.json and update the checksums."""
    config = read_json(folder / "config.json")
    *parts, last = path.split(".")
    place = config
    for part in parts:
        place = place[part]
    assert last in place
    place[last] = value
    write_json(folder / "config.json", config)
    sealed(folder)


@pytest.mark.parametrize(
    ("encoder", "path", "value"),
    [
        ({"kind": "transformer", **SMALL}, "parts.encoder.depth", 10**7),
        ({"kind": "transformer", **SMALL}, "parts.encoder.depth", 10**400),
        ({"kind": "transformer", **SMALL}, "parts.encoder.hidden", 10**7),
        ({"kind": "transformer", **SMALL}, "parts.encoder.width", 10**6),
        ({"kind": "transformer", **SMALL, "positions": "sinusoidal"}, "frame.max_length", 10**7),
        ({"kind": "transformer", **SMALL}, "frame.max_length", 10**400),
        ({"kind": "bilstm", "width": 4, "depth": 1}, "frame.max_length", 10**400),
        ({"kind": "bilstm", "width": 4, "depth": 1}, "parts.encoder.depth", 10**7),
        ({"kind": "bilstm", "width": 4, "depth": 1}, "frame.vocabulary", 10**12),
        ({"kind": "pretrained", "family": "bert", "small": SMALL}, "parts.encoder.backbone.num_hidden_layers", 10**7),
        ({"kind": "pretrained", "family": "bert", "small": SMALL}, "parts.encoder.backbone.vocab_size", 10**400),
        (None, "parts.model.orders", [1, 10**12]),
    ],
)
def test_sizes_that_the_weights_do_not_have_are_refused(
    tmp_path: Path, encoder: dict[str, Any] | None, path: str, value: Any
) -> None:
    folder = saved(tmp_path, encoder)
    load(folder)
    changed(folder, path, value)
    start = time.monotonic()
    with pytest.raises(DataError, match=r"cannot be loaded by this version of epigram|at most 1,000 is supported"):
        load(folder)
    assert time.monotonic() - start < 5


def test_the_reason_is_told(tmp_path: Path) -> None:
    folder = saved(tmp_path, {"kind": "transformer", **SMALL})
    changed(folder, "parts.encoder.depth", 10**6)
    with pytest.raises(DataError, match=r"config\.json describes a larger model than its weights"):
        load(folder)
    changed(folder, "parts.encoder.depth", 10**8)
    with pytest.raises(DataError, match="has a size above 10,000,000"):
        load(folder)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow no tensor or element beyond the weights."""
    for name, value in (("MAX_SIZE", 0), ("MAX_EXTRA_TENSORS", 0), ("MAX_COPIES", 1)):
        monkeypatch.setattr(sizes, name, value)


@pytest.mark.usefixtures("exact")
def test_tensors_and_elements_are_counted() -> None:
    """The weights are 3 × 4 and 3: two tensors, 15 elements."""
    weights = nn.Linear(4, 3).state_dict()
    check_sizes(weights, {}, lambda: nn.Linear(4, 3))
    for larger in (lambda: nn.Linear(5, 3), lambda: nn.Linear(4, 4), lambda: nn.PReLU(16)):
        with pytest.raises(ValueError, match="larger model"):
            check_sizes(weights, {}, larger)
    with pytest.raises(ValueError, match="larger model"):
        check_sizes(weights, {}, lambda: nn.ModuleList(nn.PReLU(1) for _ in range(3)))
    with pytest.raises(ValueError, match="larger model"):
        check_sizes(weights, {}, lambda: nn.BatchNorm1d(4, affine=False).register_buffer("table", torch.ones(8)))
    nn.Linear(400, 300)  # outside check_sizes, nothing is counted


def test_the_model_is_built_without_memory() -> None:
    devices = []

    def build() -> nn.Module:
        model = nn.Linear(4, 3)
        devices.append(model.weight.device.type)
        return model

    check_sizes(nn.Linear(4, 3).state_dict(), {}, build)
    assert devices == ["meta"]


@pytest.mark.usefixtures("exact")
def test_models_of_other_threads_are_not_counted() -> None:
    def build() -> nn.Module:
        thread = threading.Thread(target=lambda: others.append(nn.Linear(40, 30)))
        thread.start()
        thread.join()
        return nn.Linear(4, 3)

    others: list[nn.Module] = []
    check_sizes(nn.Linear(4, 3).state_dict(), {}, build)
    assert len(others) == 1


def test_every_number_of_a_config_is_checked() -> None:
    check_numbers(json.loads('{"a": [1, {"b": 10000000}], "c": true, "d": 1e300}'))
    for text in ('{"a": [1, {"b": 10000001}]}', "[-10000001]"):
        with pytest.raises(ValueError, match="has a size above 10,000,000"):
            check_numbers(json.loads(text))


def test_orders_are_checked_without_a_list_of_their_range() -> None:
    context = DataSpec(vocabulary=10, classes=2, max_length=8)
    assert LinearSvmConfig(orders=[2, 3]).build(context).counted.orders == (2, 3)
    for orders in ([1, 10**12], [1, 3], [2, 1], []):
        with pytest.raises((ValueError, ParameterError), match="expected consecutive numbers"):
            LinearSvmConfig(orders=orders).check(context)


def test_no_compiler_is_imported_for_the_sizes() -> None:
    """Importing PyTorch's compiler takes two seconds; initialising weights on the meta device would import it."""
    code = (
        "import sys, torch; from dataclasses import replace;"
        "from tests.support.small_systems import NAMES, context_of, recipe_of;"
        "from epigram.models.sizes import check_sizes; recipes = [recipe_of(name) for name in NAMES];"
        "own = [each for each in recipes if each.by_gradient and each.encoder['kind'] != 'pretrained'];"
        "own += [replace(each, encoder={'kind': 'sentence_encoder'}, head={'kind': 'linear_ngrams', 'buckets': 9})"
        " for each in recipes if each.name == 'hybrid_linear'];"
        "made = [(each, context_of(each)) for each in own];"
        "[check_sizes({'': torch.zeros(10**6)}, {}, lambda: one.build(context)) for one, context in made];"
        "print(len(own)); sys.exit('torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(found.stdout) > 20


def test_a_table_of_codes_has_no_random_values_for_the_sizes() -> None:
    """Random integers on the meta device would import SymPy, in a fifth of a second."""
    code = (
        "import sys, torch; from epigram.models.sizes import check_sizes;"
        "from epigram.nn.layers.embedding import QuantizedEmbedding;"
        "check_sizes({'': torch.zeros(10**6)}, {}, lambda: QuantizedEmbedding(40, 8));"
        "sys.exit('sympy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
