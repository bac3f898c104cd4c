"""Queue of a model: while its threads predict, new requests wait, and the next batch takes as many as fit.

An idle thread starts at once with the requests that have arrived, so no request waits for a timer: alone, a request has
the latency of one prediction, and under load the batches grow by themselves. Idle threads share what waits: two batches
side by side, each on one processor, end sooner than one batch of all texts on two.
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


class WaitingAlone(NamedTuple, Generic[Answer]):
    """Other work with the model, during which no thread may predict, and the future of its result."""

    work: Callable[[], Answer]
    answer: asyncio.Future[Answer]


class Batcher(Generic[Answer]):
    """Queue of the requests for one model, whose function `predict` runs in `workers` threads.

    A batch has at most `batch_texts` texts, or one request with more. Raises RequestError if `max_waiting` requests
    wait already.
    """

    def __init__(
        self, predict: Callable[[list[str]], list[Answer]], *, batch_texts: int, max_waiting: int, workers: int = 1
    ) -> None:
        self._predict, self.workers = predict, workers
        self.batch_texts, self.max_waiting = batch_texts, max_waiting
        self._queue: deque[Waiting[Answer] | WaitingAlone[Answer]] = deque()
        self._threads, self._idle = ThreadPoolExecutor(workers, "predict"), workers

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a thread."""
        return len(self._queue)

    async def predict(self, texts: list[str]) -> list[Answer]:
        """Return one answer per text."""
        if self.waiting >= self.max_waiting:
            raise RequestError(503, f"{self.waiting} requests are waiting; send it again later", RETRY_AFTER)
        answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._add(Waiting(texts, answers))
        return await answers

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Return the result of other `work` with the model, which waits for its turn and then has the model alone."""
        others = sum(isinstance(one, WaitingAlone) for one in self._queue)
        if others >= MAX_OTHERS:
            raise RequestError(503, f"{others} explanations are waiting; send it again later", RETRY_AFTER)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._add(WaitingAlone(work, answer))
        return await answer

    def close(self) -> None:
        """Wait for the batches in progress and end the threads."""
        self._threads.shutdown()

    def _add(self, request: Waiting[Answer] | WaitingAlone[Answer]) -> None:
        self._queue.append(request)
        if self._idle:  # start later in this turn of the loop, with all requests that arrive together
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        """Give the idle threads what waits; work that needs the model alone waits until all are idle."""
        while self._queue and self._idle:
            first = self._queue[0]
            if isinstance(first, Waiting):
                self._submit(self._take())
            elif self._idle == self.workers:
                self._queue.popleft()
                self._submit_alone(first)
            else:
                break  # the batch that ends last starts it

    def _take(self) -> list[Waiting[Answer]]:
        """Remove the requests of the next batch: the first one, and as many as fit into an idle thread's share."""
        batch: list[Waiting[Answer]] = []
        texts = sum(len(one.texts) for one in self._queue if isinstance(one, Waiting))
        room = min(self.batch_texts, -(-texts // self._idle))
        while self._queue and isinstance(first := self._queue[0], Waiting) and (not batch or len(first.texts) <= room):
            self._queue.popleft()
            batch.append(first)
            room -= len(first.texts)
        return batch

    def _submit(self, batch: list[Waiting[Answer]]) -> None:
        self._idle -= 1
        texts = [text for one in batch for text in one.texts]
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._predict, texts)
        work.add_done_callback(partial(self._deliver, batch))

    def _submit_alone(self, request: WaitingAlone[Answer]) -> None:
        self._idle = 0
        work = asyncio.get_running_loop().run_in_executor(self._threads, request.work)
        work.add_done_callback(partial(self._deliver_alone, request))

    def _deliver(self, batch: list[Waiting[Answer]], work: asyncio.Future[list[Answer]]) -> None:
        self._idle += 1
        self._start()  # first, so that the thread has work while the answers are sent
        error, first = work.exception(), 0
        for one in batch:
            last = first + len(one.texts)
            if not one.answers.done():  # a request that was cancelled
                one.answers.set_exception(error) if error else one.answers.set_result(work.result()[first:last])
            first = last

    def _deliver_alone(self, request: WaitingAlone[Answer], work: asyncio.Future[Answer]) -> None:
        self._idle = self.workers
        self._start()
        error = work.exception()
        if not request.answer.done():
            request.answer.set_exception(error) if error else request.answer.set_result(work.result())
