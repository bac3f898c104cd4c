"""Tests of provenance: the manifest, the folder check of `epigram verify`, and signatures."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from epigram.cli import app as cli
from epigram.core.errors import DataError
from epigram.core.files import sha256
from epigram.inference.onnx.export import export
from epigram.models.manifest import read_provenance
from epigram.pruning.prune_model import prune_model
from epigram.pruning.settings import PruneSettings
from tests.support.provenance import TEXTS, manifest, trained, view_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, pos: Path) -> tuple[Any, Path]:
    """Return a view and the folder of a model trained on it."""
    view = view_of(tmp_path_factory.mktemp("view"), pos, TEXTS)
    folder = tmp_path_factory.mktemp("models") / "model"
    trained(view, folder)
    return view, folder


@pytest.fixture
def model(saved: tuple[Any, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved[1], tmp_path / "model"))


def test_a_pruned_model_has_its_own_parameters_and_weights(saved: tuple[Any, Path], tmp_path: Path) -> None:
    view, folder = saved
    drops = {tol: PruneSettings(threshold=0.0, rule="shallowest", tolerance=tol, epochs=1) for tol in (1.0, 0.9)}
    found = []
    for tolerance, settings in drops.items():
        prune_model("mine", view, folder, settings, "auto", tmp_path / str(tolerance))
        found.append(manifest(tmp_path / str(tolerance))["provenance"])
    before = manifest(folder)["provenance"]
    assert {key for key in before if found[0][key] != before[key]} == {"parameters", "weights"}
    assert found[0]["parameters"] != found[1]["parameters"]
    assert found[0]["weights"] == sha256(tmp_path / "1.0/model.safetensors")
    prune_model("mine", view, folder, PruneSettings(threshold=1.0), "auto", tmp_path / "whole")
    assert manifest(tmp_path / "whole")["provenance"] == before


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `epigram` and returns its exit code, stdout and stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["epigram", *map(str, arguments)])
        code: Any = 0
        try:
            cli.app()
        except SystemExit as end:
            code = end.code
        return int(code), *capsys.readouterr()

    return command


def test_verify_prints_what_made_a_model(model: Path, run: Run) -> None:
    code, out, err = run("verify", model)
    lines = [f"{name}: {digest}" for name, digest in manifest(model)["provenance"].items()]
    assert (code, err) == (0, "")
    assert out.splitlines() == [*lines, f"{model}: 6 files are unchanged"]


def test_verify_takes_an_exported_model(model: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("onnxscript", reason="requires the extra onnx")
    export(model, tmp_path / "exported")
    code, out, _ = run("verify", tmp_path / "exported")
    assert (code, manifest(tmp_path / "exported")["provenance"]) == (0, manifest(model)["provenance"])
    assert "weights: " in out


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "model.safetensors",
            lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x"),
            "was changed after the model was saved",
        ),
        ("README.md", lambda file: file.write_text("another"), "was changed after the model was saved"),
        ("evil.py", lambda file: file.write_text("1"), "is not listed"),
        ("labels.json", lambda file: file.unlink(), "is missing"),
    ],
)
def test_verify_refuses_a_changed_folder(
    file: str, change: Callable[[Path], object], message: str, model: Path, run: Run
) -> None:
    change(model / file)
    code, out, err = run("verify", model)
    assert (code, out) == (66 if message == "is missing" else 65, "")
    assert f"{model}/{file} {message}" in err


@pytest.mark.parametrize("value", [{"weights": "0" * 64}, ["x"], {"weights": 1}])
def test_verify_refuses_a_manifest_that_contradicts_itself(value: Any, model: Path, run: Run) -> None:
    (model / "manifest.json").write_text(json.dumps({**manifest(model), "provenance": value}))
    code, _, err = run("verify", model)
    assert code == 65 and "manifest.json" in err


def test_a_model_of_an_older_version_has_no_provenance(model: Path, run: Run) -> None:
    content = manifest(model)
    del content["provenance"]
    (model / "manifest.json").write_text(json.dumps(content))
    assert run("verify", model) == (0, f"{model}: 6 files are unchanged\n", "")


def written(key: Any, path: Path, password: bytes | None = None) -> Path:
    """Write a private key in the format of `openssl`."""
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, how))
    return path


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a key pair and return the paths of the private and the public key."""
    private, public = ec.generate_private_key(ec.SECP256R1()), folder / f"{name}.pub"
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(private.public_key().public_bytes(serialization.Encoding.PEM, form))
    return written(private, folder / f"{name}.pem"), public


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return keys(tmp_path_factory.mktemp("keys"), "owner")


@pytest.fixture
def signed(model: Path, owner: tuple[Path, Path], run: Run) -> Path:
    assert run("sign", model, "--key", owner[0]) == (0, f"{model}/model.sig: written\n", "")
    return model


def test_a_signed_model_predicts_where_its_signature_is_required(
    signed: Path, owner: tuple[Path, Path], run: Run
) -> None:
    code, out, err = run("predict", "--require-signature", owner[1], signed, "good film")
    assert (code, err) == (0, "")
    assert out == run("predict", signed, "good film")[1]
    assert run("verify", signed)[1].endswith("files are unchanged; to check the signature, use --require-signature\n")
    assert run("verify", "--require-signature", owner[1], signed)[1].endswith(
        "6 files are unchanged, signature valid\n"
    )
    assert run("sign", signed, "--key", owner[0])[0] == 0  # sign again: the old signature is not signed itself
    assert run("predict", "--require-signature", owner[1], signed, "good film")[0] == 0


def test_an_unsigned_model_is_refused(model: Path, owner: tuple[Path, Path], run: Run) -> None:
    for command in (["predict"], ["verify"]):
        texts = ["good film"] if command == ["predict"] else []
        code, out, err = run(*command, "--require-signature", owner[1], model, *texts)
        assert (code, out) == (65, "")
        assert f"{model} is not signed" in err


def test_a_missing_model_is_not_called_unsigned(owner: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    code, _, err = run("predict", "--require-signature", owner[1], tmp_path / "nowhere", "good film")
    assert code == 66 and "nowhere" in err and "is not signed" not in err


def resealed(folder: Path, name: str, content: bytes) -> None:
    """Change a file of a model and update its checksum, as an attacker could."""
    (folder / name).write_bytes(content)
    changed = manifest(folder)
    changed["sha256"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(changed))


@pytest.mark.parametrize("name", ["labels.json", "README.md"])
def test_a_changed_model_is_refused_although_its_manifest_fits(
    name: str, signed: Path, owner: tuple[Path, Path], run: Run
) -> None:
    content = b'["pos", "neg"]' if name == "labels.json" else b"another card"
    resealed(signed, name, content)
    assert run("verify", signed)[0] == 0
    code, out, err = run("predict", "--require-signature", owner[1], signed, "good film")
    assert (code, out) == (65, "")
    assert f"{signed} does not match its signature" in err and name in err


def test_a_signature_of_another_key_or_model_is_refused(
    signed: Path, saved: tuple[Any, Path], owner: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    _, stranger = keys(tmp_path, "stranger")
    assert run("predict", "--require-signature", stranger, signed, "good film")[:2] == (65, "")
    other = tmp_path / "other"
    trained(saved[0], other, seed=1)
    shutil.copyfile(signed / "model.sig", other / "model.sig")
    assert run("verify", other)[0] == 0
    assert run("predict", "--require-signature", owner[1], other, "good film")[:2] == (65, "")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000, b'{"dsseEnvelope": {}}'])
def test_a_broken_signature_is_refused(content: bytes, signed: Path, owner: tuple[Path, Path], run: Run) -> None:
    (signed / "model.sig").write_bytes(content)
    code, _, err = run("predict", "--require-signature", owner[1], signed, "good film")
    assert (code, err.count("\n")) == (65, 1)


def test_a_key_that_is_none_is_a_bad_parameter(model: Path, owner: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    (tmp_path / "text").write_text("no key")
    other_kind = written(rsa.generate_private_key(65537, 1024), tmp_path / "rsa.pem")
    other_curve = written(ec.generate_private_key(ec.SECP256K1()), tmp_path / "curve.pem")
    locked = written(ec.generate_private_key(ec.SECP256R1()), tmp_path / "locked.pem", b"password")
    for key in (tmp_path / "text", other_kind, other_curve, locked, owner[1]):
        code, _, err = run("sign", model, "--key", key)
        assert (code, f"{key} is not an unencrypted private key" in err) == (64, True), key
    code, _, err = run("predict", "--require-signature", owner[0], model, "good film")
    assert (code, f"{owner[0]} is not a public key" in err) == (64, True)
    assert run("sign", model, "--key", tmp_path / "nowhere")[0] == 66


def test_a_damaged_model_is_not_signed(model: Path, owner: tuple[Path, Path], run: Run) -> None:
    (model / "labels.json").write_text('["x", "y"]')
    assert run("sign", model, "--key", owner[0])[0] == 65
    assert not (model / "model.sig").exists()


def test_without_the_package_a_signature_cannot_be_required(
    model: Path, owner: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epigram.core.extras.find_spec", lambda name: None)
    for command in (["sign", model, "--key", owner[0]], ["predict", "--require-signature", owner[1], model, "x"]):
        code, out, err = run(*command)
        assert (code, out) == (64, "")
        assert "[signing]" in err


def test_a_provenance_is_read_of_the_weights_that_are_there(model: Path) -> None:
    resealed(model, "model.safetensors", b"others")
    with pytest.raises(DataError, match="has two different checksums of the weights"):
        read_provenance(model)
