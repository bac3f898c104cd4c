"""The service retrains on a schedule: better models are promoted, worse ones rejected, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.processes import until
from tests.support.serving import FINAL, Serving, listening
from tests.support.shop import reviews
from tests.support.shop_repository import Shop, copied
from tests.support.toy import Toy

pytestmark = [pytest.mark.slow, pytest.mark.extended]

SCHEDULE = """\
name: shop
pull: []
deployments:
  - name: retrain
    entrypoint: flows.retrain.retrain
    parameters: {root: "{{ $PWD }}"}
    schedules: [{interval: 20}]
    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW}
    work_pool: {name: epigram}
"""


@contextmanager
def service(bare: Path, folder: Path, deployments: str, **environment: str) -> Iterator[tuple[Shop, Serving]]:
    """Yield a new repository with a running service of these deployments."""
    shop = copied(bare, folder / "repo")
    (shop.root / "prefect.yaml").write_text(deployments)
    (folder / "told").mkdir()
    serving = Serving(Toy(shop.root, folder / "told"), **environment)
    try:
        yield shop, serving
    finally:
        serving.kill()


def arrive(shop: Shop, name: str, rows: pl.DataFrame) -> None:
    """Add a file in one rename, as the documentation requires."""
    shop.arrive(f".{name}", rows)
    (shop.incoming / f".{name}").rename(shop.incoming / name)


def told(serving: Serving, *beginnings: str) -> str:
    """Return the message of the first run that starts with one of `beginnings`; fail if a run failed."""

    def found() -> str:
        ended = [run["state"] for run in serving.runs() if run["state_type"] in FINAL - {"CANCELLED"}]
        ill = [state for state in ended if state["type"] != "COMPLETED"]
        assert not ill, ill
        return next((state["message"] for state in ended if (state["message"] or "").startswith(beginnings)), "")

    return str(until(found, 300))


def champion(shop: Shop) -> dict[str, Any]:
    return dict(json.loads(shop.git("show", "champion:champion.json")))


@pytest.fixture
def served(bare: Path, tmp_path: Path) -> Iterator[tuple[Shop, Serving]]:
    """Yield a repository with a running service that retrains every twenty seconds."""
    with service(bare, tmp_path, SCHEDULE) as found:
        yield found


def test_scheduled_runs_promote_the_better_and_refuse_the_worse(served: tuple[Shop, Serving]) -> None:
    shop, serving = served
    told(serving, "first champion")
    assert champion(shop)["number"] == 1

    arrive(shop, "monday.csv", reviews(300, "slang", seed=1))
    assert "champion tfidf_svm" in told(serving, "better: tfidf_svm")
    better = champion(shop)
    assert better["number"] == 2
    assert (shop.root / "runs" / "champion").readlink() == Path(better["run"])

    noise = reviews(200, "plain", seed=2)
    arrive(shop, "noise.csv", noise.with_columns(stars=noise["stars"].shuffle(seed=3)))
    told(serving, "worse: ", "not significantly better: ")
    assert champion(shop) == better

    ended = serving.stop()
    assert ended.returncode == 0, ended.stderr
    assert serving.command.wait(timeout=60) == 0


def test_a_run_that_skips_a_file_sends_a_notice_that_names_it(bare: Path, tmp_path: Path) -> None:
    started_here = SCHEDULE.replace("    schedules: [{interval: 20}]\n", "")
    with (
        listening() as (address, notices),
        service(bare, tmp_path, started_here, EPIGRAM_WEBHOOK=f"{address}/x") as (shop, serving),
    ):
        shop.arrive("monday.csv", reviews(300, "slang", seed=1))
        (shop.incoming / "empty.csv").write_text("review,stars\n")
        serving.start("retrain", "retrain")
        until(lambda: notices, 200, lambda: [[run["name"], run["state"]] for run in serving.runs()])
        text = notices[0]["text"]
        assert text.startswith("retrain: ") and " is Failed\npromoted: first champion\n" in text
        assert f"\nskipped: {shop.incoming / 'empty.csv'} has no rows; add rows or remove the file\nhttp" in text
        assert [file.name for file in (shop.incoming / "taken").iterdir()] == ["monday.csv"]
