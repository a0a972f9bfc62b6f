"""A tournament: games are paired, judged and told as battles. What is judged is kept, so the same again goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evals.arena.battles import BattleList, Battles, style_of
from evals.arena.pairing import Game, against, all_pairs, check_contestant, strengths, swiss_round
from evals.data.answers import Answers
from evals.data.choice_labels import probability_of
from evals.data.comparisons import Record
from evals.data.questions import Question, QuestionSet
from judges import runner
from judges.backend import Backend, ProgressListener, judge_into
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.orders import disagreement_in
from judges.verdict import Verdict
from judges.verdict_file import VerdictFile

VERDICTS = "verdicts.jsonl"

Method = Literal["all", "baseline", "swiss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tournament:
    """Who is compared on what, and how.

    Attributes:
        questions: What is asked.
        answers: Of each contestant.
        method: All pairs, each against a baseline, or Swiss rounds.
        baseline: The contestant that the others are compared with, where ``method`` says so.
        rounds: Swiss rounds.
        seed: Of every draw.

    Raises:
        MagistrateError: There are fewer than two contestants, two have one name, or the baseline is not among them.
    """

    questions: QuestionSet
    answers: Sequence[Answers]
    method: Method = "all"
    baseline: str | None = None
    rounds: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        check_contestants(self.models, method=self.method, baseline=self.baseline, rounds=self.rounds)

    @property
    def models(self) -> list[str]:
        """The contestants."""
        return [one.model for one in self.answers]


def check_contestants(names: Sequence[str], *, method: Method, baseline: str | None, rounds: int) -> None:
    """Refuse contestants that cannot be compared so.

    Raises:
        MagistrateError: There are fewer than two, two have one name, the baseline is not among them, or the rounds are too many.
    """
    if len(names) < 2:
        raise MagistrateError(f"an arena compares two models or more, and there are answers of {len(names)}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise MagistrateError(
            f"two contestants are called `{twice[0]}`; name each, as `--answers NAME=FILE`, or by `name` in an arena's file"
        )
    if method == "baseline" and baseline is None:
        raise MagistrateError("pairs against a baseline need the baseline's name: give `--baseline NAME`")
    check_contestant("baseline", baseline, names)
    if rounds < 1 or (method == "swiss" and rounds >= len(names)):
        most = f"a number from 1 to {len(names) - 1}, as each of {len(names)} models has so many others to meet"
        raise MagistrateError(f"there are {rounds} Swiss rounds: give {most}")


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a tournament.

    Attributes:
        battles: Of every game, those between identical answers and those that are not scored among them.
        verdicts: Of every game that was judged, by ``game_id``.
        judged: Games that a judge was asked about.
        now: How many of them this time.
        made: How it was made, for whoever wants to make it again.
    """

    battles: Battles
    verdicts: Mapping[str, Verdict]
    judged: int
    now: int
    made: dict[str, Any]


async def play(
    tournament: Tournament,
    folder: Path,
    backend: Backend,
    progress: Callable[[int], ProgressListener] = lambda count: ProgressListener(),
    *,
    overwrite: bool = False,
) -> Played:
    """Have every game judged that no earlier run has.

    Args:
        tournament: Who plays.
        folder: Where verdicts are kept, as ``verdicts.jsonl``.
        backend: Who judges; closing it is left to the caller.
        progress: Makes a listener from a number of games.
        overwrite: Whether to throw away what earlier runs judged.

    Raises:
        MagistrateError: The judge cannot go on, or another judge's verdicts are there. What is judged is kept.
    """
    field = _Field(tournament)
    fingerprint = await backend.fingerprint()
    games: list[Game] = []
    verdicts: dict[str, Verdict] = {}
    now = judged = 0
    with VerdictFile(folder / VERDICTS, fingerprint, backend.judge, overwrite=overwrite) as file:
        for batch in _batches(field, verdicts):
            games += batch
            asked = [game for game in batch if not field.identical(game)]
            keys: set[str] = set()
            tally = await judge_into(file, _noted(field, asked, backend.judge, keys), backend, progress(len(asked)))
            now += tally.judged
            judged += len(asked)
            # By what the judge was shown: a game between answers that have changed since has a verdict of the same id.
            verdicts |= {verdict.id: verdict for verdict in file.verdicts() if verdict.sample in keys}
        file.finish(whole=False)
    identity = fingerprint.identity
    made = {
        "judge": backend.judge.name,
        "judge_model": identity.model,
        "engine": f"{identity.engine} {identity.engine_version}",
        "fingerprint": fingerprint.digest,
        "pairs": tournament.method,
        "rounds": tournament.rounds if tournament.method == "swiss" else None,
        "judge_options": backend.judge.options.model_dump(),
        "seed": tournament.seed,
    }
    return Played(field.battles(games, verdicts, identity.model), verdicts, judged, now, made)


def _noted(field: _Field, games: Iterable[Game], judge: Judge, keys: set[str]) -> Iterator[runner.PreparedSample]:
    """The games as questions to the judge, with a note of their keys."""
    for game in games:
        question = runner.prepare(field.row(game), judge)
        keys.add(question.key)
        yield question


def game_id(game: Game) -> str:
    """How a game's verdict names it: the question and both models, as JSON, so that the verdict alone tells them."""
    return json.dumps(list(game), ensure_ascii=False)


def game_of(verdict_id: str) -> Game | None:
    """The game that a verdict is of; ``None`` where its id does not say."""
    try:
        parts = json.loads(verdict_id)
    except ValueError:
        return None
    if isinstance(parts, list) and len(parts) == 3 and all(isinstance(part, str) for part in parts):
        return Game(*parts)
    return None


class _Field:
    """The contestants' answers, by question."""

    def __init__(self, tournament: Tournament) -> None:
        self.tournament = tournament
        self._questions: Mapping[str, Question] = {one.index: one for one in tournament.questions.questions}
        self._answers = {one.model: one.texts for one in tournament.answers}
        self._styles = {
            (one.model, question): style_of(turns) for one in tournament.answers for question, turns in one.texts.items()
        }

    def plays(self, game: Game) -> bool:
        """Whether both have answered."""
        return game.question in self._answers[game.model_a] and game.question in self._answers[game.model_b]

    def identical(self, game: Game) -> bool:
        """Whether both have answered the same, of which nothing can be judged."""
        return self._answers[game.model_a][game.question] == self._answers[game.model_b][game.question]

    def row(self, game: Game) -> Row:
        """What the judge is shown."""
        question = self._questions[game.question]
        sample: dict[str, Any] = {"question": _one_or_list(question.turns)}
        sample["answer_a"] = _one_or_list(self._answers[game.model_a][game.question])
        sample["answer_b"] = _one_or_list(self._answers[game.model_b][game.question])
        given = {"reference_answer": question.reference, "evaluating_guidance": question.guidance}
        sample |= {name: text for name, text in given.items() if text}
        return Row(game_id(game), f"question {game.question}, {game.model_a} and {game.model_b}", sample)

    def battles(self, games: Iterable[Game], verdicts: Mapping[str, Verdict], judge: str) -> Battles:
        """The games with what came of them, in the questions' order."""
        places = {index: place for place, index in enumerate(self._questions)}
        made = BattleList(self.tournament.models)
        for game in sorted(games, key=lambda game: places[game.question]):
            question, verdict = self._questions[game.question], verdicts.get(game_id(game))
            style_a, style_b = (self._styles[model, game.question] for model in (game.model_a, game.model_b))
            battle = Record(*game, preference=None) if verdict is None else Record(*game, **told_of(verdict))
            made.add(
                battle._replace(
                    capability=question.capability,
                    language=question.language,
                    judge=judge,
                    style_a=style_a,
                    style_b=style_b,
                    identical=self.identical(game),
                )
            )
        return made.battles()


def told_of(verdict: Verdict) -> dict[str, Any]:
    """What a verdict of a judge of two answers says of a battle, as a ``Record`` has it."""
    scores = verdict.scores or {}
    # A judge that leans to a place is found out by such pairs, scored or not.
    unscored = disagreement_in(verdict.reason)
    return {
        "preference": scores.get("preference"),
        "reason": "the orders disagree" if unscored else verdict.reason or "the verdict has no preference",
        "orders": unscored or (verdict.detail or {}).get("choices") or (),
        "probability": probability_of(verdict),
    }


def _batches(field: _Field, verdicts: Mapping[str, Verdict]) -> Iterator[list[Game]]:
    """The games in the order of their judging. Swiss rounds go by the verdicts that are there by then."""
    tournament = field.tournament
    questions = [one.index for one in tournament.questions.questions]
    models = tournament.models
    if tournament.method == "swiss":
        yield from _swiss(field, questions, models, verdicts)
        return
    pairs = (
        against(questions, models, str(tournament.baseline), tournament.seed)
        if tournament.method == "baseline"
        else all_pairs(questions, models, tournament.seed)
    )
    yield [game for game in pairs if field.plays(game)]


def _swiss(
    field: _Field, questions: Sequence[str], models: Sequence[str], verdicts: Mapping[str, Verdict]
) -> Iterator[list[Game]]:
    played: dict[str, set[frozenset[str]]] = {}
    rounds: list[list[Game]] = []
    for place in range(field.tournament.rounds):
        known = field.battles(chain.from_iterable(rounds), verdicts, "")
        found = strengths(known.first, known.second, known.share, len(models)) if rounds else np.zeros(len(models))
        by_model = dict(zip(models, found.tolist(), strict=True))
        paired = swiss_round(questions, models, by_model, played, place, field.tournament.seed)
        for game in paired:
            played.setdefault(game.question, set()).add(frozenset((game.model_a, game.model_b)))
        rounds.append([game for game in paired if field.plays(game)])
        yield rounds[-1]


def _one_or_list(turns: Sequence[str]) -> str | list[str]:
    return turns[0] if len(turns) == 1 else list(turns)
