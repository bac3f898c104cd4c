"""Fixtures for Prefect's dashboard in headless Chromium. No other machine is contacted."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from epigram.runner.service import server as api
from tests.support import shop_repository
from tests.support.prefect_home import add_database
from tests.support.processes import until
from tests.support.project_copy import tree
from tests.support.shop import reviews
from tests.support.toy import Toy, command_env, copied

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SHOTS = os.environ.get("EPIGRAM_SCREENSHOTS") == "1"  # retake the screenshots of the documentation
CHROMIUM = shutil.which("chromium") or "chromium"
# Counts the mostly green and the mostly red pixels of an image.
PIXELS = """async picture => {
  const image = await createImageBitmap(await (await fetch(picture)).blob());
  const drawn = new OffscreenCanvas(image.width, image.height).getContext('2d');
  drawn.drawImage(image, 0, 0);
  const rgba = drawn.getImageData(0, 0, image.width, image.height).data;
  const found = {green: 0, red: 0};
  for (let at = 0; at < rgba.length; at += 4) {
    const [red, green, blue] = [rgba[at], rgba[at + 1], rgba[at + 2]];
    found.green += green > red + 60 && green > blue + 40;
    found.red += red > green + 80 && red > blue + 80;
  }
  return found;
}"""


class Server:
    """Prefect server with its dashboard, and queries of its API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, what: str, **wanted: Any) -> list[dict[str, Any]]:
        """Return the objects of the kind `what`, for example flow_runs, filtered by the API."""
        return httpx.post(f"{self.url}/api/{what}/filter", json=wanted).raise_for_status().json()

    def run(self, name: str) -> str:
        """Return the id of the flow run `name` after the database has all of its states."""

        def recorded() -> str:
            runs = self.ask("flow_runs", flow_runs={"name": {"any_": [name]}})
            tasks = self.ask("task_runs", flow_runs={"name": {"any_": [name]}})
            ended = tasks and all(each["end_time"] or each["state_name"] == "NotReady" for each in tasks)
            return runs[0]["id"] if runs and ended else ""

        return until(recorded)

    def artifact(self, key: str, run: str = "") -> dict[str, Any]:
        """Return the newest artifact with `key`, of any flow run or of the run with the id `run`."""
        wanted: dict[str, Any] = {"key": {"any_": [key]}} | ({"flow_run_id": {"any_": [run]}} if run else {})
        return until(lambda: self.ask("artifacts", artifacts=wanted, sort="CREATED_DESC"))[0]

    @property
    def env(self) -> dict[str, str]:
        """Return the environment variables that make a run use this server."""
        return {"PREFECT_API_URL": f"{self.url}/api"}


@pytest.fixture(scope="module")  # while it is active, nothing else in the process can use asyncio
def browser() -> Iterator[Any]:
    """Yield headless Chromium; skip the test if Chromium or playwright is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="requires playwright")
    if not shutil.which(CHROMIUM):
        pytest.skip("requires chromium on the PATH")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a separate server that runs of other tests do not find."""
    port = api.free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(add_database(tmp_path_factory.mktemp("prefect"))))
        patch.setenv(api.API_URL, "")
        started = api.Server(api.local_url(port), api.start_dashboard(port, ""))
    try:
        started.wait()
        yield Server(started.url)
    finally:
        started.stop()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """Yield an empty page; its requests to other machines fail."""
    context = browser.new_context(viewport={"width": 1280, "height": 960}, base_url=server.url)
    context.route(lambda url: not url.startswith(server.url), lambda route: route.abort())
    yield context.new_page()
    context.close()


Shot = Callable[..., None]


@pytest.fixture
def shot(page: Any) -> Shot:
    """Return a function that saves a screenshot for the documentation if EPIGRAM_SCREENSHOTS is 1."""

    def keep(name: str, height: int = 960) -> None:
        if SHOTS:
            from PIL import Image

            page.set_viewport_size({"width": 1280, "height": height})
            page.wait_for_timeout(3_000)  # graphs and images are animated
            with Image.open(io.BytesIO(page.screenshot())) as picture:
                picture.convert("P", palette=Image.Palette.ADAPTIVE).save(IMAGES / f"{name}.png", optimize=True)

    return keep


@pytest.fixture(scope="module")
def mixed(server: Server, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the id of a run with cached, restored, failed and never ready stages."""
    with pytest.MonkeyPatch.context() as patch:
        toy = copied(finished, tmp_path_factory.mktemp("mixed"), patch)
    shutil.rmtree(toy.root / "out" / "fit" / "mlp")
    toy.change("fit@bert")
    lines = ["2 rows have no text", "row 3", "row 8"]
    told = {"summary": lines[0], "details": lines[1:]}
    toy.tell({"fit@bert": {"codes": [65], "say": ["reading", f"error: {lines[0]}", *lines[1:]], "outcome": told}})
    command = toy.command("--name", "mixed", env=toy.env | server.env)
    _, errors = command.communicate(timeout=300)
    assert command.returncode == 65, errors
    return server.run("mixed")


@pytest.fixture(scope="module")
def training(server: Server, pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toy]:
    """Yield the repository of a run that is training while the test looks at the dashboard."""
    with pytest.MonkeyPatch.context() as patch:
        toy = copied(pristine, tmp_path_factory.mktemp("training"), patch)
    step = (toy.root / "step.py").read_text()
    (toy.root / "step.py").write_text(step.replace("    print(line)\n", "    print(line); time.sleep(5.5)\n"))
    bars = ["mlp seed 0 epoch 1/4 [#####---------------]", "mlp seed 0 epoch 3/4 [############--------]"]
    toy.tell({"fit@mlp": {"say": [f"\x1e{bar} loss 0.412 dev 82.1" for bar in bars], "sleep": 600}})
    command = toy.command("--name", "training", env=toy.env | server.env)
    yield toy
    command.terminate()
    command.communicate(timeout=60)


@pytest.fixture(scope="module")
def real(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the project's own pipeline on the small Chinese corpus with a linear and a neural system."""
    folder = tree(tmp_path_factory.mktemp("real"))
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params |= {"systems": {name: {"view": "token"} for name in ("tfidf_svm", "fast_text")}, "train": {"epochs": 15}}
    params |= {"evaluate": {"resamples": 200, "timing_texts": 4}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    toy = Toy(folder, tmp_path_factory.mktemp("told"))
    code = {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'src'}", "PREFECT_HOME": str(toy.told)}
    command = toy.command("--name", "real", env=command_env() | code | server.env)
    _, errors = command.communicate(timeout=600)
    assert command.returncode == 0, errors
    return folder


@pytest.fixture(scope="module")
def promoted(server: Server, bare: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the id of a retraining on new rows that promoted its model."""
    folder = tmp_path_factory.mktemp("promoted")
    shop = shop_repository.copied(bare, folder / "repo")
    for arrived in (False, True):
        if arrived:
            shop.arrive("monday.csv", reviews(300, "slang", seed=1))
        env = command_env() | server.env | {"PREFECT_HOME": str(folder)}
        subprocess.run([sys.executable, "-m", "epigram.cli", "retrain"], cwd=shop.root, env=env, check=True)
    return str(server.ask("flow_runs", flows={"name": {"any_": ["retrain"]}}, sort="START_TIME_DESC")[0]["id"])
