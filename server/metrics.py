"""What the server counts, for Prometheus. All names begin with ``magistrate_``."""

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
"""Names of judges, or of models, that are counted apart. The rest count as ``other``, since every name takes memory for good."""

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
JUDGMENT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
RECORD_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """One server's counters, in a registry of their own. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._judges = _Names()
        self._models = _Names()
        self._states: dict[str, str] = {}
        ProcessCollector(namespace="magistrate", registry=self.registry)
        self._judgments = self._counter("judgments", "Verdicts, scored and unscored.", "judge", "status")
        self._tokens = self._counter("tokens", "Tokens taken. Cached ones are among those of the prompts.", "model", "kind")
        self._requests = self._counter("http_requests", "Answers by route.", "route", "method", "status")
        self._restarts = self._counter("engine_restarts", "Engines started again after a failure.", "model")
        self._recorded = self._counter("recorded", "Results of batches written to the database.")
        self._request_seconds = self._histogram("http_request_seconds", "From head to end of answer.", REQUEST_BUCKETS, "route")
        self._judgment_seconds = self._histogram(
            "judgment_seconds", "From question to verdict, the engine's queue included.", JUDGMENT_BUCKETS, "judge", "how"
        )
        self._record_seconds = self._histogram("record_seconds", "One transaction that records results.", RECORD_BUCKETS)
        self._model_state = Gauge(
            "magistrate_model_state", "1 for the state that a model is in.", ["model", "state"], registry=self.registry
        )

    def _counter(self, name: str, said: str, *labels: str) -> Counter:
        return Counter(f"magistrate_{name}", said, labels, registry=self.registry)

    def _histogram(self, name: str, said: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"magistrate_{name}", said, labels, buckets=buckets, registry=self.registry)

    def judged(self, judge: str, status: str, seconds: float, how: How) -> None:
        """Count a verdict.

        Args:
            judge: The judge's name.
            status: ``scored`` or ``unscored``.
            seconds: What it took.
            how: Whether somebody waited for it, or it is a batch's.
        """
        judge = self._judges.bounded(judge)
        self._judgments.labels(judge, status).inc()
        self._judgment_seconds.labels(judge, how).observe(seconds)

    def tokens(self, model: str, usage: Usage) -> None:
        """Count what a model took for an answer."""
        model = self._models.bounded(model)
        self._tokens.labels(model, "prompt").inc(usage.prompt_tokens)
        self._tokens.labels(model, "cached").inc(usage.cached_tokens)
        self._tokens.labels(model, "completion").inc(usage.completion_tokens)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer.

        Args:
            route: The template of its path: no path itself, of which there is no end.
            method: The request's.
            status: The answer's.
            seconds: What it took.
        """
        self._requests.labels(route, method if method in METHODS else OTHER, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def engine_restarted(self, model: str) -> None:
        """Count an engine that was started again after a failure."""
        self._restarts.labels(self._models.bounded(model)).inc()

    def model_is(self, model: str, state: str) -> None:
        """Say in which state a model is now. The one before reads 0 from then on."""
        model = self._models.bounded(model)
        before = self._states.get(model)
        if before is not None and before != state:
            self._model_state.labels(model, before).set(0)
        self._states[model] = state
        self._model_state.labels(model, state).set(1)

    def recorded(self, results: int, seconds: float) -> None:
        """Count a transaction that recorded results.

        Args:
            results: How many of them were new.
            seconds: What it took.
        """
        self._recorded.inc(results)
        self._record_seconds.observe(seconds)

    def watch_queue(self, lines: Callable[[], Mapping[str, int]]) -> None:
        """Have open lines by model asked for at every look at the metrics. Called once a server.

        Args:
            lines: Says how many there are. Where it fails, they are left out of that look.
        """
        self.registry.register(_Queue(lines))

    def exposition(self) -> tuple[bytes, str]:
        """All of it as Prometheus reads it, with the content's type. It asks the queue: call it in a thread."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class _Names:
    """The names that are counted apart."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def bounded(self, name: str) -> str:
        """The name, or ``other`` where there have been too many."""
        if name not in self._names:
            if len(self._names) >= MOST_NAMES:
                return OTHER
            self._names.add(name)
        return name


class _Queue(Collector):
    """Open lines, counted when somebody looks."""

    def __init__(self, lines: Callable[[], Mapping[str, int]]) -> None:
        self._lines = lines

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The metric without its values: without this, the registry would ask the queue for them."""
        yield self._family()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The metric with its values."""
        family = self._family()
        try:
            for model, lines in self._lines().items():
                family.add_metric([model], lines)
        except Exception:
            logger.warning("the queue could not be counted for the metrics", exc_info=True)
        yield family

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily("magistrate_queue_lines", "Lines of unfinished batches that wait.", labels=["model"])
