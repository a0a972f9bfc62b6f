"""The server's metrics for Prometheus. All names begin with ``magistrate_``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from judges.engines.engine import Usage

logger = logging.getLogger(__name__)

How = Literal["now", "batch"]
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
MOST_NAMES = 500
"""Names of judges, or of models, with series of their own. Further ones count as ``other``, since each takes memory for good."""

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
JUDGMENT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
RECORD_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The metrics of one server, in a registry of their own. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._judges: set[str] = set()
        self._models: set[str] = set()
        self._states: dict[str, str] = {}
        ProcessCollector(namespace="magistrate", registry=self.registry)
        self._judgments = self._counter("judgments", "Verdicts, scored and unscored.", "judge", "status")
        self._tokens = self._counter("tokens", "Tokens used. Cached ones are among those of the prompts.", "model", "kind")
        self._requests = self._counter("http_requests", "Answers by route.", "route", "method", "status")
        self._restarts = self._counter("engine_restarts", "Restarts of engines after a failure.", "model")
        self._recorded = self._counter("recorded", "Results of batches written to the database.")
        self._request_seconds = self._histogram("http_request_seconds", "From head to end of answer.", REQUEST_BUCKETS, "route")
        self._judgment_seconds = self._histogram(
            "judgment_seconds", "From sample to verdict, including the engine's queue.", JUDGMENT_BUCKETS, "judge", "how"
        )
        self._record_seconds = self._histogram("record_seconds", "One transaction that records results.", RECORD_BUCKETS)
        self._model_state = Gauge(
            "magistrate_model_state", "1 for the state that a model is in.", ["model", "state"], registry=self.registry
        )

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"magistrate_{name}", help_text, labels, registry=self.registry)

    def _histogram(self, name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"magistrate_{name}", help_text, labels, buckets=buckets, registry=self.registry)

    def judged(self, judge: str, status: str, seconds: float, how: How) -> None:
        """Count a verdict: its judge, ``scored`` or ``unscored``, the seconds it took, and whether it belongs to a batch."""
        judge = _bounded(judge, self._judges)
        self._judgments.labels(judge, status).inc()
        self._judgment_seconds.labels(judge, how).observe(seconds)

    def tokens(self, model: str, usage: Usage) -> None:
        """Count the tokens that a model used for an answer."""
        model = _bounded(model, self._models)
        self._tokens.labels(model, "prompt").inc(usage.prompt_tokens)
        self._tokens.labels(model, "cached").inc(usage.cached_tokens)
        self._tokens.labels(model, "completion").inc(usage.completion_tokens)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer by the template of its route, since paths are without number, and the seconds it took."""
        self._requests.labels(route, method if method in METHODS else OTHER, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def engine_restarted(self, model: str) -> None:
        """Count a restart of an engine after a failure."""
        self._restarts.labels(_bounded(model, self._models)).inc()

    def model_is(self, model: str, state: str) -> None:
        """Set the state of a model. Its previous state reads 0 from then on."""
        model = _bounded(model, self._models)
        before = self._states.get(model)
        if before is not None and before != state:
            self._model_state.labels(model, before).set(0)
        self._states[model] = state
        self._model_state.labels(model, state).set(1)

    def recorded(self, results: int, seconds: float) -> None:
        """Count a transaction that recorded new results, and the seconds it took."""
        self._recorded.inc(results)
        self._record_seconds.observe(seconds)

    def watch_queue(self, lines: Callable[[], Mapping[str, int]]) -> None:
        """Report the length of the queue at every scrape. To be called once.

        Args:
            lines: Counts the open lines by model. If it fails, they are missing from that scrape.
        """
        self.registry.register(_Queue(lines))

    def exposition(self) -> tuple[bytes, str]:
        """Write all metrics as Prometheus reads them, and the content type. It reads the queue, so call it in a thread."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


def _bounded(name: str, known: set[str]) -> str:
    """Return the name, or ``other`` if there are too many names."""
    if len(known) < MOST_NAMES:
        known.add(name)
    return name if name in known else OTHER


class _Queue(Collector):
    """Open lines, counted at each scrape."""

    def __init__(self, lines: Callable[[], Mapping[str, int]]) -> None:
        self._lines = lines

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Describe the metric; otherwise the registry would read the queue to learn its name."""
        yield self._family()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Read the values."""
        family = self._family()
        try:
            for model, lines in self._lines().items():
                family.add_metric([model], lines)
        except Exception:
            logger.warning("the queue could not be counted for the metrics", exc_info=True)
        yield family

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily("magistrate_queue_lines", "Lines of unfinished batches that wait.", labels=["model"])
