"""The service retrains on a schedule: better models are promoted, worse ones rejected, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.processes import until
from tests.support.serving import Serving, listening
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
    schedules: [{interval: 10}]
    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW}
    work_pool: {name: epigram}
"""


def arrive(shop: Shop, name: str, rows: pl.DataFrame) -> None:
    """Add a file in one rename, as the documentation requires."""
    shop.arrive(f".{name}", rows)
    (shop.incoming / f".{name}").rename(shop.incoming / name)


def retrained(serving: Serving) -> dict[str, Any]:
    """Run the deployment and return its final state."""
    return serving.ended(serving.start("retrain", "retrain"), 300)


def champion(shop: Shop) -> dict[str, Any]:
    return dict(json.loads(shop.git("show", "champion:champion.json")))


@dataclass(frozen=True)
class Service:
    """A repository with a running service that has retrained by its schedule, and the notices that it sends."""

    shop: Shop
    serving: Serving
    notices: list[dict[str, Any]]


@pytest.fixture(scope="module")
def service(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("scheduled")
    shop = copied(bare, folder / "repo")
    (shop.root / "prefect.yaml").write_text(SCHEDULE)
    (folder / "told").mkdir()
    with listening() as (address, notices):
        serving = Serving(Toy(shop.root, folder / "told"), EPIGRAM_WEBHOOK=f"{address}/x")
        try:
            until(lambda: serving.runs(state_type="RUNNING"), 240)
            serving.settle("retrain")
            yield Service(shop, serving, notices)
        finally:
            serving.kill()


def test_a_scheduled_run_makes_the_first_champion(service: Service) -> None:
    states = [run["state"] for run in service.serving.runs() if run["state_type"] != "CANCELLED"]
    assert {state["type"] for state in states} == {"COMPLETED"}
    assert states[0]["message"] == "first champion"
    assert champion(service.shop)["number"] == 1
    assert service.notices == []


def test_a_better_one_is_promoted_and_a_notice_names_the_file_that_is_skipped(service: Service) -> None:
    shop = service.shop
    arrive(shop, "monday.csv", reviews(300, "slang", seed=1))
    empty = shop.incoming / "empty.csv"
    empty.write_text("review,stars\n")
    state = retrained(service.serving)
    empty.unlink()
    skipped = f"\nskipped: {empty} has no rows; add rows or remove the file"
    assert state["type"] == "FAILED" and state["message"].startswith("promoted: better: tfidf_svm")
    assert state["message"].endswith(skipped) and "champion tfidf_svm" in state["message"]
    better = champion(shop)
    assert better["number"] == 2
    assert (shop.root / "runs" / "champion").readlink() == Path(better["run"])
    assert [file.name for file in (shop.incoming / "taken").iterdir()] == ["monday.csv"]
    text = until(lambda: service.notices, 200)[0]["text"]
    message = escape(state["message"], quote=False)  # it has a p-value below a bound
    assert text.startswith("retrain: ") and f" is Failed\n{message}\nhttp" in text


def test_a_worse_one_is_refused(service: Service) -> None:
    before = champion(service.shop)
    noise = reviews(200, "plain", seed=2)
    arrive(service.shop, "noise.csv", noise.with_columns(stars=noise["stars"].shuffle(seed=3)))
    state = retrained(service.serving)
    assert (state["type"], state["name"]) == ("COMPLETED", "Refused")
    assert state["message"].startswith(("worse: ", "not significantly better: "))
    assert champion(service.shop) == before

    ended = service.serving.stop()
    assert ended.returncode == 0, ended.stderr
    assert service.serving.command.wait(timeout=60) == 0
