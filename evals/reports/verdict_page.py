"""A page to read verdicts on: what was asked and answered, filtered by status and score. One file, which asks for nothing else.

The list of verdicts and their texts are compressed inside the page, the texts in parts that a browser opens as they are read, so
a page of 100,000 verdicts opens in seconds. It is written as a stream, since a server sends it while it reads its store.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evals.reports.files import finite_only
from evals.reports.html import TEMPLATES, environment, policy
from judges.data.samples import well_formed_content
from judges.judge import Score
from judges.texts import Texts
from judges.verdict import Verdict

PART = 200
"""Verdicts whose texts a browser opens together."""

LONGEST = 20_000
"""Characters of a text that a page holds."""

PLACE = "<!-- here -->"
"""Where the template has the verdicts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A verdict as the page shows it, or a line that got none.

    Attributes:
        id: The sample's id.
        status: ``scored``, ``unscored`` or ``failed``.
        reason: Why it is not scored.
        scores: Metric to score.
        facts: What else is known of it, by name; empty facts are not shown.
        texts: What the judge was shown and what it answered.
        without: Why there are no texts.
    """

    id: str
    status: str
    reason: str | None = None
    scores: Mapping[str, Score] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    texts: Texts | None = None
    without: str = ""

    @classmethod
    def of(cls, verdict: Verdict, texts: Texts | None, without: str = "") -> Entry:
        """A verdict with its texts, or the reason why it has none."""
        fields = verdict.as_fields()
        facts = {name: fields.get(name) for name in FACTS}
        return cls(verdict.id, verdict.status, verdict.reason, verdict.scores or {}, facts, texts, without)


FACTS = ("judge", "justification", "expected", "detail", "notes", "recovered", "occurrence", "usage", "sample", "fingerprint")
"""Fields of a verdict that are shown behind its scores."""


def verdict_page(title: str, entries: Iterable[Entry], about: str = "", back: str = "") -> Iterator[str]:
    """Write the page of some verdicts, a piece at a time.

    Args:
        title: Of the page, usually the file's name.
        entries: The verdicts, in their order.
        about: A sentence on what they are.
        back: The address of the page of their batch.
    """
    script = page_script()
    page = (
        environment()
        .get_template("verdicts.html")
        .render(title=title, about=about, back=back, place=Markup(PLACE), script=Markup(script), policy=policy([script]))
    )
    head, tail = page.split(PLACE)
    yield head
    index = _Index()
    waiting: list[dict[str, Any]] = []
    for entry in entries:
        waiting.append(index.add(entry))
        if len(waiting) == PART:
            yield _packed("part", waiting)
            waiting = []
    if waiting:
        yield _packed("part", waiting)
    yield _packed("index", index.fields())
    yield tail


@cache
def page_script() -> str:
    """The script of the page."""
    return (TEMPLATES / "verdicts.js").read_text(encoding="utf-8")


def page_policy() -> str:
    """What a browser lets the page do."""
    return policy([page_script()])


def write_page(path: Path, title: str, entries: Iterable[Entry], about: str = "") -> None:
    """Write the page to a file, which is replaced once the page is whole.

    Raises:
        OSError: It cannot be written.
    """
    scratch = path.with_name(f".{path.name}.part")
    try:
        with scratch.open("w", encoding="utf-8") as file:
            file.writelines(verdict_page(title, entries, about))
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


class _Index:
    """What the list of verdicts shows: a row each, with reasons by their number."""

    def __init__(self) -> None:
        self._metrics: dict[str, None] = {}
        self._reasons: dict[str, int] = {}
        self._rows: list[list[Any]] = []
        self._statuses: Counter[str] = Counter()

    def add(self, entry: Entry) -> dict[str, Any]:
        """Add a verdict; return what is shown of it alone."""
        self._metrics |= dict.fromkeys(entry.scores)
        self._statuses[entry.status] += 1
        reason = None if entry.reason is None else self._reasons.setdefault(_cut(entry.reason), len(self._reasons))
        self._rows.append([entry.id, entry.status, reason, dict(entry.scores)])
        return {
            "facts": {name: fact for name, fact in entry.facts.items() if fact not in (None, [], {}, False)},
            "prompts": [_turns(prompt) for prompt in entry.texts.prompts] if entry.texts else [],
            "answers": [_cut(answer) for answer in entry.texts.answers] if entry.texts else [],
            "without": "" if entry.texts and entry.texts.prompts else entry.without,
        }

    def fields(self) -> dict[str, Any]:
        """The index as JSON. Scores stand in the order of the metrics: null where one does not apply, or there is none."""
        metrics = list(self._metrics)
        rows = [[*known, *map(scores.get, metrics)] for *known, scores in self._rows]
        return {
            "metrics": metrics,
            "reasons": list(self._reasons),
            "statuses": dict(self._statuses),
            "part": PART,
            "rows": rows,
        }


def _turns(prompt: Sequence[Any]) -> list[list[str]]:
    return [[turn.role, _cut(turn.content)] for turn in prompt]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} more characters)"


def _packed(kind: str, content: object) -> str:
    """JSON that a browser unpacks, as an element that a page can hold whatever its texts are."""
    text = json.dumps(well_formed_content(finite_only(content)), ensure_ascii=False, separators=(",", ":"))
    data = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    return f'<script type="application/gzip" data-{kind}>{data}</script>\n'
