"""The metrics by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evals.metrics.metric import Metric
from judges.engines.engine import Engine
from judges.errors import MagistrateError

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is measured, the names of options, and how the metric is made of its name, its options and perhaps an engine."""

    says: str
    options: tuple[str, ...]
    make: Callable[[str, Options, Engine | None], Metric]


# The libraries behind a metric are loaded when it is opened: some take seconds.


def _rouge(name: str, options: Options, _: Engine | None) -> Metric:
    from evals.metrics.overlap import Rouge

    return Rouge(name, **options)


def _accuracy(_: str, options: Options, __: Engine | None) -> Metric:
    from evals.metrics.exact import Accuracy

    return Accuracy(**options)


def _exact(_: str, options: Options, __: Engine | None) -> Metric:
    from evals.metrics.exact import Exact

    return Exact(**options)


def _pass_at_k(_: str, options: Options, __: Engine | None) -> Metric:
    from evals.metrics.programs import PassAtK

    return PassAtK(**options)


def _judge(_: str, options: Options, engine: Engine | None) -> Metric:
    from evals.metrics.judged import Judged

    if engine is None:
        raise MagistrateError("metric `judge` asks a model, and none is given")
    return Judged(engine, **options)


_ENTRIES: Mapping[str, _Entry] = {
    "rouge-1": _Entry("words in common, F-measure", ("stemmer",), _rouge),
    "rouge-2": _Entry("pairs of words in common, F-measure", ("stemmer",), _rouge),
    "rouge-l": _Entry("longest sequence of words in common, F-measure", ("stemmer",), _rouge),
    "accuracy": _Entry("whether the right one of several choices is named", ("choices",), _accuracy),
    "exact": _Entry("whether the answer is the right one, letter for letter", ("ignore_case",), _exact),
    "pass@k": _Entry("whether one of k programs passes its tests; called pass@1, pass@5", ("k", "seconds"), _pass_at_k),
    "judge": _Entry("a score of a judge", ("judge", "options", "score", "fields", "think"), _judge),
}

METRICS: Mapping[str, str] = {name: entry.says for name, entry in _ENTRIES.items()}
"""Name to what is measured. ``pass@1`` and the like stand for ``pass@k`` with that k."""

PASS_AT = re.compile(r"pass@([1-9]\d{0,3})")


def open_metric(name: str, options: Options | None = None, *, engine: Engine | None = None) -> Metric:
    """A metric by name.

    Args:
        name: One of ``METRICS``, or ``pass@`` and a number.
        options: Of the metric; its class says which.
        engine: What a judge is asked of. It is left open, and must be started before pairs are measured.

    Raises:
        MagistrateError: There is no such metric or option, an option is wrong, or the metric needs an engine.
    """
    given = dict(options or {})
    if found := PASS_AT.fullmatch(name):
        if "k" in given:
            raise MagistrateError(f"the metric `{name}` says its k already; leave out the option `k`")
        name, given["k"] = "pass@k", int(found[1])
    elif name == "pass@k" and "k" not in given:
        raise MagistrateError("the metric `pass@k` needs its k: call it `pass@1`, `pass@5` or the like, or give the option `k`")
    if name not in _ENTRIES:
        raise MagistrateError(
            f"there is no metric `{name}`; there are {', '.join(_ENTRIES).replace('pass@k', 'pass@1 or the like')}"
        )
    entry = _ENTRIES[name]
    for key in given:
        if key not in entry.options:
            raise MagistrateError(f"metric `{name}` has no option `{key}`; it has: {', '.join(entry.options)}")
    return entry.make(name, given, engine)
