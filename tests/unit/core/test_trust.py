"""Security tests: untrusted files, names and addresses run no code, reach no other host and reveal no secret."""

from __future__ import annotations

import http.server
import json
import pickle
import pickletools
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from epigram.core.errors import DataError, EpigramError, ParameterError
from epigram.core.files import write_json
from epigram.runner import child_process
from epigram.runner.service import server
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import load
from tests.support.bad_input import ROWS, Workshop, built, csv
from tests.support.code_files import CODE, ROOT
from tests.support.model_seeds import saved_model, sealed

SECRET = "hunter2-canary"


class Canary:
    """Object that touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """Return the path of a file that must not exist at the end of the test."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists()


def hostile(folder: Path, canary: Path, **config: object) -> None:
    """Add files and settings to `folder` that an unsafe loader would execute."""
    folder.mkdir(exist_ok=True)
    code = f"import pathlib\npathlib.Path({str(canary)!r}).touch()\nclass C: pass\n"
    for name in ("evil.py", "modeling_evil.py", "__init__.py", "setup.py", "conftest.py"):
        (folder / name).write_text(code)
    for name in ("pytorch_model.bin", "model.pkl", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Canary(canary)))
    remote = {"AutoConfig": "evil.C", "AutoModel": "evil.C", "AutoTokenizer": ["evil.C", "evil.C"]}
    for name in ("config.json", "tokenizer_config.json"):
        told = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        write_json(folder / name, {**told, "auto_map": remote, "custom_pipelines": {"x": {"impl": "evil.C"}}, **config})


def test_the_canary_sings(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Canary(tmp_path / "sung")))  # noqa: S301  the test's own pickle
    assert (tmp_path / "sung").exists()


@pytest.mark.parametrize("model_type", ["bert", "evil"])
def test_a_hostile_checkpoint_is_refused(tmp_path: Path, canary: Path, model_type: str) -> None:
    from epigram.nn.encoders.pretrained import PretrainedConfig
    from epigram.nn.layers.types import DataSpec
    from epigram.text.tokens.pretrained_tokenizers import read_checkpoint

    folder = tmp_path / "checkpoint"
    hostile(folder, canary, model_type=model_type, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    assert read_checkpoint(str(folder)).tokenizer.encode("a").ids
    with pytest.raises(EpigramError):
        PretrainedConfig().build(DataSpec(vocabulary=6, classes=2, max_length=8, checkpoint=str(folder)))


def test_code_and_pickles_in_a_model_s_folder_are_refused(tmp_path: Path, canary: Path) -> None:
    from epigram.inference.predictors.predictor import Predictor

    folder = tmp_path / "model"
    saved_model(folder)
    own = {*folder.iterdir()}
    before = Predictor(folder).probabilities(["好"])
    hostile(folder, canary)
    sealed(folder)
    with pytest.raises(DataError, match=r"is not listed in manifest\.json"):
        Predictor(folder)
    for path in {*folder.iterdir()} - own:
        path.unlink()
    assert (Predictor(folder).probabilities(["好"]) == before).all()  # config.json still names them


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "labels.json", "tokenizer.json"])
def test_a_file_without_its_checksum_is_refused(tmp_path: Path, name: str) -> None:
    from epigram.models.serialization import load as load_model

    saved_model(tmp_path / "model")
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    del manifest["sha256"][name]
    write_json(tmp_path / "model/manifest.json", manifest)
    with pytest.raises(DataError, match=rf"{name} is not listed in manifest\.json"):
        load_model(tmp_path / "model")


def test_yaml_runs_nothing(tmp_path: Path, canary: Path) -> None:
    from epigram.cli.options import parse_change
    from epigram.data.sources.source import read_source

    tag = f'!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ["{canary}"]]'
    for name, read in (("params.yaml", load), ("mr.yaml", read_source)):
        (tmp_path / name).write_text(f"dataset: {tag}\n")
        with pytest.raises(ParameterError, match=f"{name} is not valid YAML"):
            read(tmp_path / name)  # type: ignore[operator]
    with pytest.raises(ParameterError, match="not a YAML value"):
        parse_change(f"dataset={tag}")


INJECTIONS = [
    "x; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "x\ntouch pwned",
    "x' 'y",
    "../../x",
    "-x",
    "x y",
    "a|b",
    "",
]


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_value_of_a_run_never_reaches_a_shell(tmp_path: Path, name: str) -> None:
    params = tmp_path / "params.yaml"
    params.write_text((ROOT / "params.yaml").read_text())
    before = params.read_bytes()
    if name:
        for wanted in ({"dataset": name}, {"systems": (name,)}, {"systems": (name,), "revision": "HEAD"}):
            with pytest.raises(ParameterError, match="letters, digits"):
                Request(root=tmp_path, **wanted)  # type: ignore[arg-type]
    changes = [{"dataset": name}, {"systems.dmsp.view": name}, {f"systems.{name.replace('.', '!')}.view": "token"}]
    for change in changes:
        with pytest.raises(ParameterError, match=r"(params\.yaml|run): .* is"):
            overrides.write(params, Request(root=tmp_path, changes=change, revision="HEAD"))
    assert params.read_bytes() == before
    params.write_text(yaml.safe_dump({**yaml.safe_load(before), "dataset": name}))
    with pytest.raises(ParameterError, match="dataset is"):
        load(params)


def test_dvc_itself_starts_no_stage_for_a_data_set_that_is_no_name(tmp_path: Path) -> None:
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["download"]
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"download": stage | {"params": ["dataset"]}}}))
    (tmp_path / "params.yaml").write_text('dataset: "x; touch pwned; echo"\n')
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "data/sources/x; touch pwned; echo.yaml" in done.stderr  # the file does not exist
    assert not (tmp_path / "pwned").exists()


def test_the_dashboard_listens_on_this_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_SERVER_API_HOST", "0.0.0.0")
    monkeypatch.setattr(child_process, "start", lambda command, **_: started.append(command))
    server._launch("create_app", 4200, {})
    (command,) = started
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert not [path for path in CODE if "0.0.0.0" in path.read_text(encoding="utf-8")]


class Site(http.server.BaseHTTPRequestHandler):
    """Handler that serves the same table at every address."""

    def do_GET(self) -> None:
        body = csv(ROWS).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress the log."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("EPIGRAM_TOKEN", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, SECRET)
        patch.delenv("EPIGRAM_MIRROR", raising=False)
        yield built(tmp_path_factory.mktemp("workshop"))


def test_no_output_of_a_run_is_a_pickle(workshop: Workshop) -> None:
    files = [path for path in workshop.root.rglob("*") if path.is_file()]
    assert len(files) > 60
    assert [path for path in files if is_pickle(path)] == []


def is_pickle(path: Path) -> bool:
    if zipfile.is_zipfile(path):
        return any(name.endswith((".pkl", ".pickle")) for name in zipfile.ZipFile(path).namelist())
    try:
        with warnings.catch_warnings(action="ignore"):
            return len(list(pickletools.genops(path.read_bytes()))) > 1
    except Exception:  # any error means that the file is not a pickle
        return False


def test_a_pickle_is_known_for_one(tmp_path: Path) -> None:
    import torch

    (tmp_path / "plain").write_bytes(pickle.dumps({"a": 1}, protocol=0))
    torch.save({"a": torch.ones(1)}, tmp_path / "torch")
    assert is_pickle(tmp_path / "plain")
    assert is_pickle(tmp_path / "torch")


def test_no_secret_is_in_what_a_run_leaves_or_says(
    workshop: Workshop, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EPIGRAM_MIRROR", raising=False)
    workshop.clear()
    file = {"path": "reviews.csv", "url": f"http://user:{SECRET}@{site}/reviews.csv?token={SECRET}", "sha256": "0" * 64}
    source = workshop.source("", files=[file])
    wrong = workshop.stage("download", source, workshop.out)
    wrong.refused(65, f"reviews.csv from http://***@{site}/reviews.csv has the checksum")
    assert workshop.left() == []
    assert not list((workshop.root / ".epigram/downloads").rglob("*.csv*"))
    right = workshop.stage("download", workshop.source("", files=[{**file, "sha256": None}]), "new/raw")
    assert right.code == 0
    judged = workshop.stage("validate", "new/raw", workshop.out)
    monkeypatch.setenv("EPIGRAM_MIRROR", f"ftp://user:{SECRET}@host")
    mirrored = workshop.stage("download", workshop.source("", files=[file | {"mirror": "x"}]), "new/other")
    mirrored.refused(64, "EPIGRAM_MIRROR is 'ftp://***@host'")
    said = "".join(part for ended in (wrong, right, judged, mirrored) for part in (ended.out, ended.err))
    assert SECRET not in said
    (workshop.root / source).unlink()  # the source file contains the secret
    files = [path for path in workshop.root.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
