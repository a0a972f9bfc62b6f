"""Battles from files of verdicts: Magistrate's own, and those that were made anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from evals.arena.battles import PREFERENCES, BattleList, Battles, style_of
from evals.arena.pairing import Game
from evals.arena.tournament import game_of, told_of
from evals.data.answers import Answers
from evals.data.comparisons import Record
from evals.data.published_comparisons import read_battles
from evals.data.questions import Question, QuestionSet
from evals.data.tasks import Fault
from evals.data.verdicts import usual_judge
from judges.data.rows import read_rows
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.orders import PREFERENCE, compares
from judges.verdict import Verdict
from judges.verdict_lines import MANIFEST, PARQUET, check_scores, numbered_lines, numbered_verdicts, place_of

OWN = ("judge", "status", "scores", "fingerprint")
"""Fields by which a verdict of Magistrate's is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is known of battles beside their verdicts.

    Attributes:
        questions: What was asked: a verdict's question is looked up here for its capability and language.
        answers: What was answered, for the style of answers, and whose answers a published verdict is of.
        pairs: The samples that ``magistrate score`` judged, for verdicts whose ids do not tell who was compared.
        renamed: A model's name in the files to the one that it is to have.
        encoding: Of files of CSV.
    """

    questions: QuestionSet | None = None
    answers: Sequence[Answers] = ()
    pairs: Path | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None


def gather(paths: Sequence[Path], beside: Beside | None = None) -> tuple[Battles, list[Fault]]:
    """Read files of verdicts.

    Args:
        paths: Verdicts of a judge of two answers, battles that an arena wrote, or any form that ``published.read_battles`` knows.
        beside: What else is known.

    Returns:
        The battles, and what could not be used.

    Raises:
        MagistrateError: A file cannot be read or is of no known form, or a verdict does not tell who was compared.
    """
    beside = beside or Beside()
    gathered = _Gathering(beside)
    for path in paths:
        if _is_own(path):
            gathered.take_own(path)
        else:
            gathered.take_published(path)
    known = gathered.named | {one.model for one in beside.answers}
    if unknown := [name for name in beside.renamed if name not in known]:
        raise MagistrateError(f"`--rename {unknown[0]}=...`: no model is called so; there are {', '.join(sorted(known))}")
    return gathered.battles.battles(), gathered.faults


class _Gathering:
    def __init__(self, beside: Beside) -> None:
        self.battles = BattleList()
        self.named: set[str] = set()
        self._faults: list[Fault] = []
        self._alike = Fault("compares a model with itself")
        self._beside = beside
        asked = beside.questions.questions if beside.questions else ()
        self._questions: Mapping[str, Question] = {one.index: one for one in asked}
        self._answers = {beside.renamed.get(one.model, one.model): one.texts for one in beside.answers}
        self._by_id = {answer: one.model for one in beside.answers for answer in one.ids}
        self._pairs = None if beside.pairs is None else _read_pairs(beside.pairs)

    @property
    def faults(self) -> list[Fault]:
        """What could not be used so far."""
        return [*self._faults, *([self._alike] if self._alike.count else [])]

    def take_own(self, path: Path) -> None:
        """Add the verdicts of a file of Magistrate's. Of several on one game the first counts: others are of earlier answers."""
        seen: set[str] = set()
        again = Fault("verdict of a game that the file has another of, which counts")
        judge_of = cache(usual_judge)
        for number, verdict in numbered_verdicts(path):
            judge = judge_of(verdict.judge)
            _check_preference(verdict, judge, place_of(path, number))
            check_scores(verdict, judge, path, number)
            pair = self._pairs.get(verdict.id) if self._pairs is not None else None
            game = pair.game if pair else game_of(verdict.id)
            if game is None:
                raise MagistrateError(
                    f"{place_of(path, number)}: verdict `{verdict.id}` does not tell who was compared; give the "
                    "samples it judged, with `question_id`, `model_a` and `model_b`, as `--pairs FILE`"
                )
            if verdict.id in seen:
                again.add(verdict.id)
                continue
            seen.add(verdict.id)
            style_a, style_b = pair.styles if pair else (None, None)
            self._add(Record(*game, **told_of(verdict), style_a=style_a, style_b=style_b))
        if again.count:
            self._faults.append(again)

    def take_published(self, path: Path) -> None:
        """Add the verdicts of a file that was made elsewhere."""
        published = read_battles(path, answer_models=self._by_id, encoding=self._beside.encoding)
        for one in published:
            given = ((one.answer_a, one.style_a), (one.answer_b, one.style_b))
            style_a, style_b = (style if text is None else style_of([text]) for text, style in given)
            self._add(one._replace(style_a=style_a, style_b=style_b))
        self._faults += published.faults

    def _add(self, battle: Record) -> None:
        renamed = self._beside.renamed
        one, other = (renamed.get(name, name) for name in (battle.model_a, battle.model_b))
        self.named.update((battle.model_a, battle.model_b))
        if one == other:
            self._alike.add(battle.question)
            return
        question = self._questions.get(battle.question)
        texts = [self._answers.get(name, {}).get(battle.question) for name in (one, other)]
        given = (battle.style_a, battle.style_b)
        style_a, style_b = (style if text is None else style_of(text) for style, text in zip(given, texts, strict=True))
        # What was judged all the same is judged: it counts as any other verdict.
        same = battle.identical or (texts[0] is not None and texts[0] == texts[1])
        battle = battle._replace(model_a=one, model_b=other, style_a=style_a, style_b=style_b)
        if question is not None:
            capability, language = question.capability or battle.capability, question.language or battle.language
            battle = battle._replace(capability=capability, language=language)
        self.battles.add(battle._replace(identical=same and battle.preference is None))


def _check_preference(verdict: Verdict, judge: Judge | None, place: str) -> None:
    """Check that a verdict is one on two answers; ``judge`` is what is known of its judge.

    Raises:
        MagistrateError: It is not.
    """
    if (judge is not None and not compares(judge)) or PREFERENCE not in (verdict.scores or {PREFERENCE: None}):
        usual = "an arena needs verdicts with a `preference`, such as those of judge `pairwise`"
        raise MagistrateError(f"{place}: judge `{verdict.judge}` compares no pairs; {usual}")
    found = None if verdict.scores is None else verdict.scores[PREFERENCE]
    if judge is None and verdict.scores is not None and found not in PREFERENCES:
        legal = ", ".join(map(json.dumps, PREFERENCES))
        raise MagistrateError(f"{place}: field `scores.{PREFERENCE}` is {json.dumps(found)}, but a preference is {legal}")


@dataclass(frozen=True, slots=True)
class _Pair:
    game: Game
    styles: tuple[Any, ...]


def _read_pairs(path: Path) -> dict[str, _Pair]:
    """The samples that a run of ``magistrate score`` judged, by their ids."""
    found = {}
    for row in read_rows(path):
        if row.sample is None:
            continue
        sample = row.sample
        for name in ("model_a", "model_b"):
            if not isinstance(sample.get(name), str):
                raise MagistrateError(f"{row.place}: there is no `{name}`; a pair has `model_a` and `model_b`, who were compared")
        asked = next((sample[name] for name in ("question_id", "index") if name in sample), row.id)
        answers = [sample.get(name) for name in ("answer_a", "answer_b")]
        styles = tuple(style_of([text]) if isinstance(text, str) else None for text in answers)
        found[row.id] = _Pair(Game(str(asked), sample["model_a"], sample["model_b"]), styles)
    return found


def _is_own(path: Path) -> bool:
    """Whether a file begins with a verdict of Magistrate's, or a folder holds them."""
    if path.is_dir():
        return (path / MANIFEST).is_file()
    if path.suffix.lower() == PARQUET:
        from judges.units.tables import has_columns

        return has_columns(path, OWN)
    if path.suffix.lower() not in (".jsonl", ".ndjson") or not path.exists():
        return False
    _, first = next(chain(numbered_lines(path), [(0, b"")]))
    try:
        fields = json.loads(first)
    except ValueError:
        return False
    return isinstance(fields, dict) and all(name in fields for name in OWN)
