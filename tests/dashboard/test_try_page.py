"""The model server's page to try texts, in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="requires the extra serve")

from epigram.inference.explanations.neighbors import write_neighbors
from epigram.inference.predictors.open_predictor import open_predictor
from tests.support.linear_models import TRAIN, svm
from tests.support.model_server import model_server
from tests.support.saved_systems import saved

pytestmark = pytest.mark.extended
SCRIPT = "<script>document.title='changed'</script><img src=x onerror=\"document.title='changed'\">"


@pytest.fixture(scope="module")
def words_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("bilstm_tagger", tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, words_model: Path) -> Iterator[str]:
    """Yield the address of a server with a linear model that has training texts, a word model, and a token."""
    linear = svm(tmp_path_factory.mktemp("linear"), "en", TRAIN["en"])
    write_neighbors(linear, ["large room", "nice <b>soup</b>", "nice clerk"], [["room"], [], ["staff", "room"]])
    with model_server(f"linear={linear}", f"words={words_model}", EPIGRAM_TOKEN="sesame") as server:
        yield server.url


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """Yield the page at 390 pixels width; it fails the test for an error in its script or a request to elsewhere."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    tab, problems = context.new_page(), []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: problems.append(request.url) if not request.url.startswith(address) else None)
    tab.on("console", lambda line: problems.append(line.text) if "Content Security" in line.text else None)
    tab.goto(address)
    yield tab
    assert [each for each in problems if not each.startswith("data:")] == []
    context.close()


def predict(page: Any, texts: str, model: str = "linear") -> None:
    """Send texts as a user does, with the token."""
    page.get_by_label("Token").fill("sesame")
    page.get_by_role("button", name="Predict").click()  # lists the models
    page.locator("#model option").nth(1).wait_for(state="attached")
    page.get_by_label("Model").select_option(model)
    page.get_by_label("Texts, one per line").fill(texts)
    page.get_by_role("button", name="Predict").click()
    page.locator("article").last.wait_for()


def test_the_page_asks_for_the_token_and_shows_labels_and_probabilities(page: Any) -> None:
    page.get_by_text("the header authorization has no valid token").wait_for()
    predict(page, "nice soup\n\nlarge room")
    assert page.locator("article h2").all_inner_texts() == ["food", "room"]
    assert page.locator("article").first.locator("td").all_inner_texts()[:3] == ["food", "", "93.1%"]
    assert page.locator("#problem").inner_text() == ""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_labelled_words_are_marked_at_their_positions(page: Any, words_model: Path) -> None:
    text = "👍 w7 <b>w22</b> w30"  # positions are characters, and JavaScript's are UTF-16 units
    predict(page, text, "words")
    expected = [f"{word.text} {word.label}" for word in open_predictor(words_model).predict([text])[0].words]
    found = [" ".join(each.split()) for each in page.locator("mark").all_inner_texts()]
    assert found == expected and any("w22" in each for each in expected)


def test_why_marks_the_words_that_decide(page: Any) -> None:
    predict(page, f"👍 nice soup {SCRIPT[:8]}")
    page.get_by_role("button", name="Why?").click()
    page.locator("article p", has_text="(weights)").wait_for()
    assert page.locator("article p", has_text="(weights)").inner_text().startswith("food: soup +")
    marks = page.locator("article mark")
    assert marks.all_inner_texts()[:3] == ["👍", "nice", "soup"] or "soup" in marks.all_inner_texts()
    strong = marks.filter(has_text="soup").first.evaluate("mark => getComputedStyle(mark).backgroundColor")
    assert strong not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 0)")
    assert page.locator("article script").count() == 0


def test_similar_training_texts_have_their_similarity_and_labels(page: Any) -> None:
    predict(page, "nice clerk")
    page.get_by_role("button", name="Why?").click()
    page.get_by_text("Similar training texts").wait_for()
    near, less = page.locator("article p", has_text="nice").all_inner_texts()[-2:]
    assert near == "1.000 staff, room: nice clerk"
    assert 0.1 < float(less[:5]) < 0.9 and less[5:] == " –: nice <b>soup</b>"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_text_with_html_is_shown_as_it_is(page: Any) -> None:
    predict(page, SCRIPT)
    assert page.locator("article p").first.inner_text() == SCRIPT
    assert page.title() == "epigram: try texts"
    assert page.locator("article img, article script").count() == 0
