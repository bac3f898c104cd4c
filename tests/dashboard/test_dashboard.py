"""What the dashboard shows of a run: graph, states, messages, progress, comparison, images and report."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.conftest import PIXELS, Server, Shot
from tests.support.processes import until
from tests.support.toy import NEEDS, Toy

pytestmark = [pytest.mark.slow, pytest.mark.extended]

MESSAGE = "2 rows have no text"


def said(page: Any, *texts: str) -> str:
    """Return the text of the page, separated by single spaces, after it shows all of `texts`."""

    def shown() -> str:
        text = " ".join(page.inner_text("body").split())
        return text if all(each in text for each in texts) else ""

    return until(shown, 30)


def test_a_run_has_its_graph_and_every_stage_its_state(page: Any, mixed: str) -> None:
    with page.expect_response(lambda answer: "/graph-v2" in answer.url) as asked:
        page.goto(f"/runs/flow-run/{mixed}")
    nodes = {node["id"]: node for _, node in asked.value.json()["nodes"]}
    needs = {node["label"]: {nodes[need["id"]]["label"] for need in node["parents"]} for node in nodes.values()}
    assert needs == NEEDS | {"publish": set()}

    def drawn() -> bool:
        picture = base64.b64encode(page.locator("canvas").first.screenshot()).decode()
        pixels = page.evaluate(PIXELS, f"data:image/png;base64,{picture}")
        return bool(pixels["green"] > 200 and pixels["red"] > 200)  # completed stages are green, failed ones red

    until(drawn, 30)
    page.get_by_text("Task Runs", exact=True).first.click()
    text = said(page, "gather Cached", "cut@token Cached", "fit@mlp Restored", "fit@bert Failed", "judge NotReady")
    assert "mixed Failed" in text


def test_a_failure_says_in_one_line_what_is_wrong(page: Any, mixed: str, server: Server, shot: Shot) -> None:
    page.goto(f"/runs/flow-run/{mixed}")
    page.get_by_text("Details", exact=True).first.click()
    said(page, f"State Message fit@bert: {MESSAGE}")
    shot("failed")
    failed = server.ask("task_runs", task_runs={"state": {"name": {"any_": ["Failed"]}}})
    page.goto(f"/runs/task-run/{failed[0]['id']}")
    said(page, f"error: {MESSAGE}", "row 3", "row 8")  # the log has the details
    assert failed[0]["state"]["message"] == MESSAGE


def test_a_failure_is_explained_with_a_link_to_the_log(page: Any, mixed: str, server: Server) -> None:
    page.goto(f"/artifacts/artifact/{server.artifact('failure', mixed)['id']}")
    text = said(page, "mixed: fit@bert failed", MESSAGE, "row 3 row 8", "Exit code 65: the data break a rule", "judge")
    assert "run it again: stages that have succeeded are not repeated" in text and "\\" not in text
    link = page.get_by_role("link", name="Log of the stage").evaluate("each => each.href")
    failed = server.ask("task_runs", task_runs={"state": {"name": {"any_": ["Failed"]}}})
    assert link == f"{server.url}/runs/task-run/{failed[0]['id']}"
    page.goto(link)
    said(page, "fit@bert", f"error: {MESSAGE}")


def test_the_progress_of_a_training_is_seen_while_it_runs(page: Any, training: Toy, server: Server, shot: Shot) -> None:
    artifact = server.artifact("progress-fit-mlp")
    until(lambda: server.artifact("progress-fit-mlp")["data"] > 25)  # the artifact is updated
    page.goto(f"/artifacts/artifact/{artifact['id']}")
    said(page, "Progress: 60%", "mlp seed 0 epoch 3/4", "loss 0.412", "fit@mlp", "training")
    shot("progress", height=420)
    assert training.journal("end").count("fit@mlp") == 0


def test_the_comparison_has_its_table_and_pictures(page: Any, real: Path, server: Server, shot: Shot) -> None:
    run = server.run("real")
    page.goto(f"/artifacts/artifact/{server.artifact('comparison', run)['id']}")
    said(page, "Use tfidf_svm", "chosen", "fast_text", "95% interval", "parameters", "Flow Run real")
    shown = "images => images.map(each => each.complete && each.naturalWidth > 100 && each.alt)"
    titles = until(lambda: [alt for alt in page.locator("img[alt]").evaluate_all(shown) if alt], 30)
    assert titles == [
        "Training: loss and dev score",
        "tfidf_svm on the test set: confusion matrix",
    ]
    shot("comparison", height=1250)


def test_the_report_is_named_where_its_verdict_stands(page: Any, real: Path, server: Server) -> None:
    page.goto(f"/artifacts/artifact/{server.artifact('report', server.run('real'))['id']}")
    text = said(page, "Use tfidf_svm", "report.html")
    place = next(word for word in text.split() if word.endswith("report.html"))
    assert Path(place) == real / "runs" / "real" / "report.html"
    assert Path(place).is_file()


def test_a_key_lists_its_artifacts_over_the_runs(page: Any, real: Path) -> None:
    page.goto("/artifacts/key/comparison")
    said(page, "comparison", " real")


def test_it_asks_nothing_of_other_machines(page: Any, real: Path, server: Server, shot: Shot) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/artifacts")
    said(page, "comparison", "report")
    page.goto(f"/runs/flow-run/{server.run('real')}")
    said(page, "real Completed", "16 Task runs", "fast_text seed 0: dev")
    assert asked and all(url.startswith((server.url, "data:", "blob:")) for url in asked)
    shot("run")


def test_a_retraining_that_promoted(page: Any, promoted: str, shot: Shot) -> None:
    page.goto(f"/runs/flow-run/{promoted}")
    page.get_by_text("Details", exact=True).first.click()
    said(page, "Promoted", "State Message better: tfidf_svm")
    shot("promoted")
