"""Tests of the model server in this process: answers, limits, token, errors, metrics and batches."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="requires the extra serve")

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

import epigram
from epigram.core.errors import DataError
from epigram.inference.onnx.export import Format, export
from epigram.inference.server.app import create_app
from epigram.inference.server.batching import Batcher
from epigram.inference.server.errors import RequestError
from epigram.inference.server.served_model import ServedModel
from epigram.inference.server.settings import ServerSettings
from epigram.monitoring.drift import Reference, class_histogram, fit_ngrams, histogram
from tests.support.linear_models import SEVERAL, TRAIN, ensemble_of_svms, svm
from tests.support.saved_systems import saved

TEXTS = ["nice soup", "w7 w22 w30 w31", "large room", "", "  \n", " soup 👍 w9 ", "w8 w40 " * 20]


def exported(folder: Path, to: Format) -> Path:
    if to == "openvino":
        pytest.importorskip("openvino", reason="requires the extra openvino")
    export(saved("textcnn", folder), folder / "out", to=to)
    return folder / "out"


MODELS: dict[str, Callable[[Path], Path]] = {
    "linear": lambda folder: svm(folder, "en", TRAIN["en"]),
    "linear_multi": lambda folder: svm(folder, "en", SEVERAL["en"], multi=True),
    "network": lambda folder: saved("textcnn", folder),
    "network_multi": lambda folder: saved("textcnn", folder, multi=True),
    "words": lambda folder: saved("bilstm_tagger", folder),
    "ensemble": ensemble_of_svms,
    "ensemble_multi": lambda folder: ensemble_of_svms(folder, multi=True),
    "onnx": lambda folder: exported(folder, "onnx"),
    "openvino": lambda folder: exported(folder, "openvino"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a linear SVM; tests must not change it."""
    return svm(tmp_path_factory.mktemp("svm"), "en", TRAIN["en"])


def client(*folders: Path, min_confidence: float = 0.0, **settings: Any) -> TestClient:
    """Return a client of a server whose models are called m0, m1, …"""
    chosen = ServerSettings(**settings)
    models = [ServedModel(f"m{n}", folder, chosen, min_confidence) for n, folder in enumerate(folders)]
    return TestClient(create_app(models, chosen), raise_server_exceptions=False)


@pytest.mark.parametrize("kind", MODELS)
def test_the_answers_are_those_of_predict(kind: str, tmp_path: Path) -> None:
    folder = MODELS[kind](tmp_path)
    predictor = epigram.load(folder)
    with client(folder) as server:
        together = server.post("/v1/predict", json={"texts": TEXTS}).json()
        alone = [server.post("/v1/predict", json={"text": text}).json()["predictions"][0] for text in TEXTS]
    assert together["model"] == "m0" and len(together["predictions"]) == len(TEXTS)
    found = [*together["predictions"], *alone]
    wanted = [*predictor.predict(TEXTS), *(predictor.predict([text])[0] for text in TEXTS)]
    for answer, expected in zip(found, wanted, strict=True):
        several = {"labels": expected.labels} if predictor.multi else {"label": expected.label or None}
        assert {name: answer[name] for name in {"label", "labels"} & answer.keys()} == several
        assert (answer["probabilities"], answer["truncated"]) == (expected.probabilities, expected.truncated)
        assert answer.get("words", []) == list(map(asdict, expected.words))
    assert (kind == "words") == any("words" in answer for answer in alone)


@pytest.mark.parametrize("kind", MODELS)
def test_two_threads_give_each_request_its_own_answer(kind: str, tmp_path: Path) -> None:
    folder = MODELS[kind](tmp_path)
    expected = {text: epigram.load(folder).predict([text])[0].probabilities for text in TEXTS}
    asked = TEXTS * 6
    with client(folder, threads=2) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: server.post("/v1/predict", json={"text": text}).json(), asked))
    for text, answer in zip(asked, answers, strict=True):
        assert answer["predictions"][0]["probabilities"] == pytest.approx(expected[text], abs=0.005)


@pytest.mark.parametrize("kind", ["linear", "network", "ensemble_multi"])
def test_the_explanations_are_those_of_explain(kind: str, tmp_path: Path) -> None:
    folder = MODELS[kind](tmp_path)
    predictor = epigram.load(folder)
    second = predictor.labels[1]
    with client(folder) as server:
        for text, label in (("nice soup w7", None), ("large room w22", second), ("", None)):
            asked = {"text": text} | ({} if label is None else {"label": label})
            answer = server.post("/v1/explain", json=asked).json()
            assert answer == {"model": "m0", **predictor.explain([text], label=label)[0].to_dict()}
        assert len(server.post("/v1/explain", json={"text": "a" * 1_000}).json()["words"]) == 1
        for status, body, message in (
            (404, {"text": "soup", "label": "none"}, "m0 has no label 'none'; GET /v1/models lists its labels"),
            (422, {"text": "a" * 1_001}, "the text has 1,001 characters; at most 1,000 are explained"),
            (422, {"texts": ["a"]}, "text: Field required"),
            (422, {"text": "a", "of": "b"}, "of: unknown field; expected text, model, label"),
        ):
            failed = server.post("/v1/explain", json=body)
            assert (failed.status_code, failed.json()["error"]["message"]) == (status, message)


def test_a_text_below_the_minimum_confidence_has_no_label(model: Path) -> None:
    with client(model, min_confidence=0.99) as server:
        answer = server.post("/v1/predict", json={"text": "nice soup"}).json()["predictions"][0]
    assert answer["label"] is None and max(answer["probabilities"].values()) > 0.5


def test_the_first_model_is_the_default_and_the_others_have_names(model: Path, tmp_path: Path) -> None:
    with client(model, saved("textcnn", tmp_path)) as server:
        labels = [
            list(server.post("/v1/predict", json={"text": "soup", **name}).json()["predictions"][0]["probabilities"])
            for name in ({}, {"model": "m0"}, {"model": "m1"})
        ]
        listed = server.get("/v1/models").json()["models"]
        assert server.get("/healthz").json() == {"status": "ok"} and server.get("/readyz").json()["status"] == "ready"
    assert labels == [["food", "room", "staff"], ["food", "room", "staff"], ["a", "b", "c"]]
    assert [(each["name"], each["labels"], each["max_tokens"]) for each in listed] == [
        ("m0", ["food", "room", "staff"], 8),
        ("m1", ["a", "b", "c"], 24),
    ]


LIMITS = {"max_texts": 3, "max_characters": 10, "max_bytes": 200}
ERRORS: list[tuple[int, str, bytes]] = [
    (422, "Invalid JSON: ", b"{"),
    (422, "Invalid JSON: ", b"\xff"),
    (422, "Invalid JSON: ", b'{"text": "\\ud800"}'),
    (422, "Input should be an object", b"[]"),
    (422, 'expected "text" or "texts", one of the two', b"{}"),
    (422, 'expected "text" or "texts", one of the two', b'{"text": "a", "texts": []}'),
    (422, "text: Input should be a valid string", b'{"text": null}'),
    (422, "texts.1: Input should be a valid string", b'{"texts": ["a", 1]}'),
    (422, "txt: unknown field; expected text, texts, model", b'{"txt": "a"}'),
    (422, "4 texts; at most 3 are allowed", b'{"texts": ["a", "a", "a", "a"]}'),
    (422, "a text has 11 characters; at most 10 are allowed", b'{"text": "12345678901"}'),
    (413, "the body is too large; at most 200 bytes are allowed", b'{"text": "a", "model": "' + b"m" * 200 + b'"}'),
    (404, "unknown model 'm7'; the server has m0", b'{"text": "a", "model": "m7"}'),
]


def test_each_error_is_one_line_of_json(model: Path) -> None:
    """The limits themselves are allowed."""
    with client(model, **LIMITS) as server:
        for status, message, body in ERRORS:
            answer = server.post("/v1/predict", content=body, headers={"content-type": "application/json"})
            error = answer.json()["error"]
            assert (answer.status_code, error["status"]) == (status, status), body
            assert error["message"].startswith(message) and "\n" not in error["message"]
        assert server.post("/v1/predict", content=b'{"text": "a"}').status_code == 415
        assert server.get("/v1/predict").json()["error"]["message"] == "Method Not Allowed: GET /v1/predict"
        assert server.get("/nothing").json()["error"]["status"] == 404
        assert len(server.post("/v1/predict", json={"texts": ["1234567890"] * 3}).json()["predictions"]) == 3
        assert server.post("/v1/predict", json={"texts": []}).json()["predictions"] == []


def test_an_internal_error_has_the_same_form(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DataError("the secret place is damaged")

    with client(model) as server:
        monkeypatch.setattr("epigram.inference.predictors.base_predictor.BasePredictor.predict", fail)
        answer = server.post("/v1/predict", json={"text": "soup"})
        monkeypatch.undo()
        assert server.post("/v1/predict", json={"text": "soup"}).status_code == 200
    assert answer.status_code == 500 and answer.json()["error"]["message"].startswith("internal error")
    assert "secret" not in answer.text


def test_a_token_is_needed_where_texts_are_predicted_or_described(model: Path) -> None:
    with client(model, token="sésame") as server:
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            assert server.get(path).status_code == 200
        for token in (None, "", "sesame", "sésame2", "s"):
            headers = {} if token is None else {"authorization": f"Bearer {token}".encode()}
            for path in ("/v1/models", "/metrics", "/nothing"):
                answer = server.get(path, headers=headers)
                assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["error"]["status"] == 401
            assert server.post("/v1/predict", json={"text": "a"}, headers=headers).status_code == 401
        headers = {"authorization": "bearer sésame".encode()}
        assert server.get("/v1/models", headers=headers).status_code == 200
        assert server.post("/v1/predict", json={"text": "a"}, headers=headers).status_code == 200
        assert server.get("/openapi.json").json()["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"


def metrics(server: TestClient) -> dict[tuple[str, ...], float]:
    """Return the values of the metrics by name and label values."""
    families = text_string_to_metric_families(server.get("/metrics").text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_the_metrics_count_what_was_answered(model: Path) -> None:
    texts = ["nice soup", "soup room", "large room", "", "soup " * 9]
    confidences = [each.probability for each in epigram.load(model).predict(texts)]
    with client(model, min_confidence=max(confidences)) as server:  # one label, and three texts without
        server.post("/v1/predict", json={"texts": texts})
        server.post("/v1/predict", json={"text": 1})
        found = metrics(server)
    wanted = {"texts": 5.0, "empty": 1.0, "unlabelled": 3.0, "truncated": 1.0}
    assert {name: found[f"epigram_{name}_total", "m0"] for name in wanted} == wanted
    assert [key for key in found if key[0] == "epigram_labels_total"] == [("epigram_labels_total", "food", "m0")]
    below = sum(value <= 0.9 for value in confidences if value)
    assert 0 < below < 4 and found["epigram_confidence_bucket", "0.9", "m0"] == below
    assert found["epigram_confidence_count", "m0"] == 4.0
    assert found["epigram_confidence_sum", "m0"] == pytest.approx(sum(confidences))
    assert found["epigram_requests_total", "/v1/predict", "200"] == 1.0
    assert found["epigram_requests_total", "/v1/predict", "422"] == 1.0
    assert found["epigram_request_seconds_count", "/v1/predict"] == 2.0
    assert found["epigram_input_characters", "m0"] == (9 + 9 + 10 + 45) / 4
    assert found["epigram_input_unknown_share", "m0"] == 0.0
    assert not any(key[0] == "epigram_drift" for key in found)


def test_the_drift_of_predictions_counts_the_label_that_prices_choose(tmp_path: Path) -> None:
    """The most probable label is food, and any other choice than staff is expensive."""
    folder = svm(tmp_path, "en", TRAIN["en"], prices=[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [9.0, 9.0, 0.0]])
    served = ServedModel("m", folder, ServerSettings(), 0.0)
    served._predict(["nice soup", " "])
    answer = served.predictor.predict(["nice soup"])[0]
    assert max(answer.probabilities, key=answer.probabilities.__getitem__) == "food"
    assert [one.label for one in served.statistics.newest()] == [answer.label] == ["staff"]
    highest = max(answer.probabilities.values())  # as in the reference that a promotion writes
    assert [one.confidence for one in served.statistics.newest()] == [pytest.approx(highest)]
    assert highest > answer.probability
    served.batcher.close()


def test_drift_is_measured_against_the_texts_that_the_champion_knows(tmp_path: Path) -> None:
    """The reference is next to the model, as in runs/champion; other texts drift, the known ones do not."""
    folder = svm(tmp_path, "en", TRAIN["en"])
    known = [text for text, _ in TRAIN["en"]] * 10
    predictor, ngrams = epigram.load(folder), fit_ngrams(known)
    predicted = predictor.probabilities(known)
    histograms = {
        "length": histogram(np.array(list(map(len, known)))),
        "unknown": histogram(np.zeros(len(known))),
        "likeness": histogram(np.ones(len(known))),
        "predicted": class_histogram(predicted.argmax(1), 3),
        "confidence": histogram(predicted.max(1)),
        "label": class_histogram(predicted.argmax(1), 3),
    }
    reference = Reference(labels=predictor.labels, ngrams=ngrams, histograms=histograms)
    (folder.parent / "reference.json").write_text(json.dumps(asdict(reference)))
    with client(folder, max_texts=1000) as server:
        server.post("/v1/predict", json={"texts": known})
        same = metrics(server)
    with client(folder) as server:
        server.post("/v1/predict", json={"texts": ["unheard words of another kind altogether"] * 60})
        other = metrics(server)
    for name in ("length", "predicted", "confidence"):
        assert same["epigram_drift", name, "m0"] == pytest.approx(0.0, abs=1e-3)
        assert other["epigram_drift", name, "m0"] > 1.0 > other["epigram_drift_by_chance", name, "m0"]
    assert other["epigram_input_unknown_share", "m0"] == 1.0


def batches_of(sizes: list[int], **limits: int) -> list[int]:
    """Return the texts in each batch if requests of these sizes arrive while the first one is predicted."""
    seen, go = [], threading.Event()

    def predict(texts: list[str]) -> list[str]:
        seen.append(len(texts))
        go.wait(10)
        return [text.upper() for text in texts]

    async def ask(batcher: Batcher[str]) -> None:
        requests = [[f"{number}-{n}x" for n in range(size)] for number, size in enumerate(sizes)]
        tasks = [asyncio.create_task(batcher.predict(requests[0]))]
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(batcher.predict(texts)) for texts in requests[1:]]
        await asyncio.sleep(0.05)
        go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        for texts, answer in zip(requests, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            assert answer == [text.upper() for text in texts]
        batcher.close()

    asyncio.run(ask(Batcher(predict, **{"batch_texts": 64, "max_waiting": 100, **limits})))
    return seen


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([1], [1]),
        ([1, 1, 1, 1], [1, 3]),
        ([1, 2, 3, 3, 1], [1, 5, 4]),  # 2 + 3 + 3 would be more than 6
        ([1, 9, 1], [1, 9, 1]),  # more than a batch is predicted alone
        ([1, 1, 9], [1, 1, 9]),
    ],
)
def test_a_batch_is_what_waits_up_to_the_limit(sizes: list[int], batches: list[int]) -> None:
    assert batches_of(sizes, batch_texts=6) == batches


def test_a_full_queue_refuses_further_requests() -> None:
    with pytest.raises(RequestError, match="2 requests are waiting") as refused:
        batches_of([1, 1, 1, 1], max_waiting=2)
    assert refused.value.status == 503 and refused.value.headers == {"retry-after": "1"}


def test_few_explanations_wait_between_the_batches() -> None:
    async def main() -> list[Any]:
        batcher: Batcher[int] = Batcher(lambda texts: [len(text) for text in texts], batch_texts=8, max_waiting=8)
        opened = threading.Event()
        others = [asyncio.ensure_future(batcher.run(lambda: int(opened.wait(5)))) for _ in range(5)]
        await asyncio.sleep(0.05)
        predicted = asyncio.ensure_future(batcher.predict(["four"]))
        opened.set()
        found = await asyncio.gather(*others, return_exceptions=True)
        return [*found, await predicted, await batcher.run(lambda: 7)]

    *done, refused, predicted, later = asyncio.run(main())
    assert (done, predicted, later) == ([1] * 4, [4], 7)
    assert isinstance(refused, RequestError) and refused.status == 503


@pytest.mark.parametrize(("workers", "batches"), [(1, [5]), (2, [3, 2]), (8, [1, 1, 1, 1, 1])])
def test_requests_that_arrive_together_are_shared_by_the_idle_threads(workers: int, batches: list[int]) -> None:
    async def ask() -> list[int]:
        seen: list[int] = []
        batcher: Batcher[str] = Batcher(
            lambda texts: seen.append(len(texts)) or texts, batch_texts=64, max_waiting=9, workers=workers
        )
        await asyncio.gather(*(batcher.predict(["a"]) for _ in range(5)))
        batcher.close()
        return seen

    assert asyncio.run(ask()) == batches


def test_two_threads_predict_side_by_side_but_an_explanation_has_the_model_alone() -> None:
    running, together, alone = list[str](), threading.Barrier(2), list[list[str]]()

    def predict(texts: list[str]) -> list[int]:
        running.extend(texts)
        together.wait(10)  # only two batches at the same time end
        time.sleep(0.2 * (texts == ["slow"]))
        running.remove(texts[0])
        return [len(texts)] * len(texts)

    def explain() -> int:
        alone.append(list(running))
        return -1

    async def main() -> list[Any]:
        batcher: Batcher[int] = Batcher(predict, batch_texts=1, max_waiting=9, workers=2)
        first = [asyncio.ensure_future(batcher.predict([text])) for text in ("fast", "slow")]
        explained = asyncio.ensure_future(batcher.run(explain))
        last = [asyncio.ensure_future(batcher.predict(["b"])) for _ in range(2)]
        return await asyncio.gather(*first, explained, *last)

    assert asyncio.run(main()) == [[1], [1], -1, [1], [1]]
    assert alone == [[]]


def test_a_failure_reaches_its_batch_only() -> None:
    def predict(texts: list[str]) -> list[str]:
        if "bad" in texts:
            raise ValueError("bad text")
        return texts

    async def ask() -> list[Any]:
        batcher = Batcher(predict, batch_texts=1, max_waiting=9)
        found = await asyncio.gather(*(batcher.predict([t]) for t in ("a", "bad", "b")), return_exceptions=True)
        batcher.close()
        return found

    first, bad, last = asyncio.run(ask())
    assert (first, last) == (["a"], ["b"]) and isinstance(bad, ValueError)


def test_a_broken_folder_leaves_the_old_model_and_a_whole_one_replaces_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new").mkdir()
    folder, new = svm(tmp_path, "en", TRAIN["en"]), saved("textcnn", tmp_path / "new")
    served = ServedModel("m", folder, ServerSettings(), 0.0)

    async def follow_until(true: Callable[[], bool]) -> None:
        task = asyncio.create_task(served.follow(0.02))
        async with asyncio.timeout(60):
            while not true():
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        task.cancel()
        served.batcher.close()

    (folder / "model.safetensors").write_bytes(b"damaged")
    asyncio.run(follow_until(lambda: served.failures > 0))
    assert (served.failures, served.reloads) == (1, 0)  # one try for each change
    assert served.predictor.predict(["nice soup"])[0].label == "food"
    assert "m: the old model stays, because the changed folder is invalid: " in capsys.readouterr().out
    shutil.rmtree(folder)
    new.rename(folder)
    asyncio.run(follow_until(lambda: served.reloads > 0))
    assert served.predictor.labels == ["a", "b", "c"] and served.reloads == 1
    assert capsys.readouterr().out == f"m: loaded again from {folder}\n"
