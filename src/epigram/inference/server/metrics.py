"""ServerMetrics in the format of Prometheus: requests and latency, and what each model has predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from epigram.inference.server.input_statistics import BINS, drift_of, unknown_tokens
from epigram.inference.server.served_model import ServedModel

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # bounds of the latency's buckets
COUNTS = {  # fields of InputStatistics
    "texts": "texts that were predicted",
    "empty": "texts of nothing but whitespace, which get no label",
    "unlabelled": "other texts without a label: below the minimum confidence or all thresholds",
    "truncated": "texts of which the model reads only the beginning",
}
GAUGES = {
    "epigram_waiting_requests": "requests that wait for the model",
    "epigram_input_characters": "mean characters of the newest texts",
    "epigram_input_unknown_share": "mean share of unknown tokens of the newest texts",
}


class ServerMetrics:
    """Registry of all metrics of one server."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(ModelCollector(models))
        labels = ("path", "status")
        self._requests = Counter("epigram_requests", "requests that were answered", labels, registry=self.registry)
        self._seconds = Histogram(
            "epigram_request_seconds", "time of a request", ("path",), buckets=SECONDS, registry=self.registry
        )

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class ModelCollector(Collector):
    """Collector that reads the statistics of the models when they are asked for."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.models = models

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of all models."""
        for name, about in COUNTS.items():
            family = CounterMetricFamily(f"epigram_{name}", about, labels=("model",))
            for model in self.models:
                family.add_metric((model.name,), getattr(model.statistics, name))
            yield family
        yield from (self._labels(), self._reloads(), self._confidence(), *self._gauges(), *self._drift())

    def _labels(self) -> Metric:
        family = CounterMetricFamily("epigram_labels", "texts that got a label", labels=("model", "label"))
        for model in self.models:
            for label, count in model.statistics.label_counts().items():
                family.add_metric((model.name, label), count)
        return family

    def _reloads(self) -> Metric:
        family = CounterMetricFamily("epigram_reloads", "changes of a model's folder", labels=("model", "result"))
        for model in self.models:
            family.add_metric((model.name, "loaded"), model.reloads)
            family.add_metric((model.name, "failed"), model.failures)
        return family

    def _confidence(self) -> Metric:
        family = HistogramMetricFamily("epigram_confidence", "highest probability of a text", labels=("model",))
        bounds = [*(str((number + 1) / BINS) for number in range(BINS)), "+Inf"]
        for model in self.models:
            counts = np.cumsum(model.statistics.confidence).tolist()
            buckets = list(zip(bounds, [*counts, counts[-1]], strict=True))
            family.add_metric((model.name,), buckets, model.statistics.confidence_sum)
        return family

    def _gauges(self) -> Iterable[Metric]:
        waiting, characters, unknown = (GaugeMetricFamily(*gauge, labels=("model",)) for gauge in GAUGES.items())
        for model in self.models:
            waiting.add_metric((model.name,), model.batcher.waiting)
            if texts := [one.text for one in model.statistics.newest()]:
                characters.add_metric((model.name,), sum(map(len, texts)) / len(texts))
                unknown.add_metric((model.name,), float(unknown_tokens(model.predictor, texts).mean()))
        return waiting, characters, unknown

    def _drift(self) -> Iterable[Metric]:
        labels = ("model", "measure")
        index = GaugeMetricFamily("epigram_drift", "population stability index of the newest texts", labels=labels)
        chance = GaugeMetricFamily("epigram_drift_by_chance", "index exceeded by chance in 0.1%", labels=labels)
        for model in self.models:
            newest = model.statistics.newest()
            for one in drift_of(model.predictor, newest, model.reference) if newest and model.reference else []:
                index.add_metric((model.name, one.name), one.index)
                chance.add_metric((model.name, one.name), one.chance)
        return index, chance
