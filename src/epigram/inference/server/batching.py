"""Batches of requests: while a model predicts, new requests wait, and the next batch takes as many as fit.

An idle model starts at once with the requests that have arrived, so no request waits for a timer: alone, a request has
the latency of one prediction, and under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from epigram.inference.server.errors import RETRY_AFTER, RequestError

Answer = TypeVar("Answer")
MAX_OTHERS = 4  # explanations that may wait: each keeps the model from predicting for a while


class Waiting(NamedTuple, Generic[Answer]):
    """Texts of one request, and the future of their answers."""

    texts: list[str]
    answers: asyncio.Future[list[Answer]]


class Batcher(Generic[Answer]):
    """Queue of the requests for one model, whose function `predict` runs in a thread of its own.

    A batch has at most `batch_texts` texts, or one request with more. Raises RequestError if `max_waiting` requests
    wait already.
    """

    def __init__(self, predict: Callable[[list[str]], list[Answer]], *, batch_texts: int, max_waiting: int) -> None:
        self._predict, self.batch_texts, self.max_waiting = predict, batch_texts, max_waiting
        self._waiting: deque[Waiting[Answer]] = deque()
        self._thread = ThreadPoolExecutor(1, "predict")
        self._busy, self._others = False, 0

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the next batch."""
        return len(self._waiting)

    async def predict(self, texts: list[str]) -> list[Answer]:
        """Return one answer per text."""
        if self.waiting >= self.max_waiting:
            raise RequestError(503, f"{self.waiting} requests are waiting; send it again later", RETRY_AFTER)
        loop = asyncio.get_running_loop()
        answers: asyncio.Future[list[Answer]] = loop.create_future()
        self._waiting.append(Waiting(texts, answers))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # later in this turn of the loop, with all requests that arrive together
        return await answers

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Return the result of other `work` with the model, in its thread between two batches."""
        if self._others >= MAX_OTHERS:
            raise RequestError(503, f"{self._others} explanations are waiting; send it again later", RETRY_AFTER)
        self._others += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._others -= 1

    def close(self) -> None:
        """Wait for the batch in progress and end the thread."""
        self._thread.shutdown()

    def _start(self) -> None:
        batch = self._take()
        self._busy = bool(batch)
        if batch:
            texts = [text for one in batch for text in one.texts]
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._predict, texts)
            work.add_done_callback(partial(self._deliver, batch))

    def _take(self) -> list[Waiting[Answer]]:
        """Remove the requests of the next batch from the queue; the first one is taken whatever its size."""
        batch: list[Waiting[Answer]] = []
        texts = 0
        while self._waiting and (not batch or texts + len(self._waiting[0].texts) <= self.batch_texts):
            batch.append(self._waiting.popleft())
            texts += len(batch[-1].texts)
        return batch

    def _deliver(self, batch: list[Waiting[Answer]], work: asyncio.Future[list[Answer]]) -> None:
        self._start()  # first, so that the thread has work while the answers are sent
        error, first = work.exception(), 0
        for one in batch:
            last = first + len(one.texts)
            if not one.answers.done():  # a request that was cancelled
                one.answers.set_exception(error) if error else one.answers.set_result(work.result()[first:last])
            first = last
