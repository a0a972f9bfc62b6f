"""Tournaments on a real engine: judged once, gone on with, reused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from evals.arena.pairing import Game
from evals.arena.sources import Beside, gather
from evals.arena.tournament import VERDICTS, Method, Played, Tournament, game_id, game_of, play
from evals.data.answers import Answers
from evals.data.questions import Question, QuestionSet
from judges.backend import LocalBackend
from judges.decoding import Decoding
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.pairwise import Pairwise
from tests.tiny import TINY

TEXTS = ["What is tea?", "Why is the sky blue?", "谁是蝙蝠侠？", "Name a river."]
MODELS = ["m1", "m2", "m3", "m4"]


def questions(count: int = 4) -> QuestionSet:
    found = [
        Question(str(number), (text,), None, None, "facts" if number % 2 else None, "CN" if number == 2 else "EN")
        for number, text in enumerate(TEXTS[:count])
    ]
    return QuestionSet(found, [], (), Path("questions.jsonl"))


def answers(models: Sequence[str], count: int = 4) -> list[Answers]:
    made = []
    for model in models:
        texts = {str(number): (f"{model} says {'so ' * number}",) for number in range(count)}
        made.append(Answers(model, texts, []))
    return made


def tournament(models: Sequence[str] = MODELS, count: int = 4, method: Method = "all", rounds: int = 2) -> Tournament:
    return Tournament(questions=questions(count), answers=answers(models, count), method=method, rounds=rounds)


def judged(
    loop: asyncio.Runner, engine: Engine, folder: Path, what: Tournament, *, overwrite: bool = False, expected: bool = True
) -> Played:
    backend = LocalBackend(Pairwise(reasoning=False, language="auto"), engine, Decoding(expected=expected))
    return loop.run(play(what, folder, backend, overwrite=overwrite))


def test_every_pair_is_judged_once_in_both_orders_with_probabilities(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    played = judged(loop, vllm_engine, tmp_path, tournament())
    battles = played.battles
    assert (played.judged, played.now, len(battles)) == (24, 24, 24)
    assert battles.models == tuple(MODELS)
    assert battles.scored.all()
    assert (battles.orders >= 0).all()
    assert ((battles.probability > 0) & (battles.probability < 1)).all()
    for question in range(4):
        there = battles.question.codes == question
        met = {frozenset(pair) for pair in zip(battles.first[there].tolist(), battles.second[there].tolist(), strict=True)}
        assert met == {frozenset(pair) for pair in combinations(range(4), 2)}
    assert battles.language.names == ("EN", "CN")
    assert battles.judge.names == (TINY,)

    again = judged(loop, vllm_engine, tmp_path, tournament())
    assert (again.judged, again.now) == (24, 0), "nothing is judged twice"
    assert again.battles.preference.tolist() == battles.preference.tolist()

    # The verdicts alone tell who met whom, and questions and answers what else there is to know.
    alone, _ = gather([tmp_path / VERDICTS])
    assert sorted(alone.models) == MODELS
    assert len(alone) == 24
    told, _ = gather([tmp_path / VERDICTS], Beside(questions=questions(), answers=answers(MODELS)))
    assert told.language.names == ("EN", "CN")
    assert told.style[:, :, 0].min() > 0

    more = judged(loop, vllm_engine, tmp_path, tournament([*MODELS, "m5"]))
    assert (more.judged, more.now) == (40, 16), "a model that joins costs its own games only"
    fewer = judged(loop, vllm_engine, tmp_path, tournament(MODELS[:2]))
    assert (fewer.judged, fewer.now, len(fewer.battles)) == (4, 0, 4)
    assert judged(loop, vllm_engine, tmp_path, tournament([*MODELS, "m5"])).now == 0, "what is left out is kept"


def test_swiss_rounds_play_fewer_games_and_go_on_alike(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    whole = judged(loop, vllm_engine, tmp_path, tournament(method="swiss"))
    assert whole.judged == 16
    lines = (tmp_path / VERDICTS).read_text().splitlines(keepends=True)
    (tmp_path / VERDICTS).write_text("".join(lines[:5]))
    again = judged(loop, vllm_engine, tmp_path, tournament(method="swiss"))
    assert again.now == 11
    assert again.battles.first.tolist() == whole.battles.first.tolist()
    assert again.battles.preference.tolist() == whole.battles.preference.tolist()


def test_another_judges_verdicts_are_refused_unless_thrown_away(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    few = tournament(MODELS[:2], 2)
    judged(loop, vllm_engine, tmp_path, few)
    with pytest.raises(MagistrateError, match=r"verdicts of another judge, model or setting .* `--overwrite`"):
        judged(loop, vllm_engine, tmp_path, few, expected=False)
    assert judged(loop, vllm_engine, tmp_path, few, overwrite=True, expected=False).now == 2


def test_an_answer_that_changed_is_judged_anew_and_its_old_verdict_counts_no_more(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    before = judged(loop, vllm_engine, tmp_path, tournament(MODELS[:2], 2))
    made = answers(MODELS[:2], 2)
    changed = Answers("m1", {**made[0].texts, "0": ("quite another answer",)}, [])
    there = Tournament(questions=questions(2), answers=[changed, made[1]])
    after = judged(loop, vllm_engine, tmp_path, there)
    assert after.now == 1
    again = judged(loop, vllm_engine, tmp_path, there)
    assert again.now == 0
    samples = [{one.id: one.sample for one in played.verdicts.values()} for played in (before, after, again)]
    assert samples[1] == samples[2] != samples[0]
    told, _ = gather([tmp_path / VERDICTS])
    assert len(told) == 2


def test_identical_answers_are_not_judged_and_missing_ones_make_no_game(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    made = answers(MODELS[:3], 3)
    texts = {one.model: dict(one.texts) for one in made}
    texts["m2"]["0"] = texts["m1"]["0"]
    del texts["m3"]["1"]
    contestants = [Answers(model, found, []) for model, found in texts.items()]
    played = judged(loop, vllm_engine, tmp_path, Tournament(questions=questions(3), answers=contestants))
    assert len(played.battles) == 7
    assert played.battles.identical.sum() == 1
    assert (played.judged, int(played.battles.scored.sum())) == (6, 6)
    assert not played.battles.reasons


def test_ids_tell_games_whatever_names_hold() -> None:
    for game in (Game("1", "a", "b"), Game('x"], [', "m | n", "谁"), Game("", "a\nb", "c")):
        assert game_of(game_id(game)) == game
    for text in ("17", "not json", '["a", "b"]', "[1, 2, 3]", "{}"):
        assert game_of(text) is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"answers": []}, "two models or more, and there are answers of 0"),
        ({"answers": answers(["m1"])}, "two models or more, and there are answers of 1"),
        ({"answers": answers(["m1", "m1"])}, "two contestants are called `m1`"),
        ({"method": "baseline"}, "need the baseline's name"),
        ({"baseline": "x"}, "baseline `x` is not among the models: m1, m2"),
        ({"rounds": 0}, "give a number from 1"),
        ({"rounds": 2, "method": "swiss"}, "a number from 1 to 1, as each of 2 models has so many others to meet"),
    ],
)
def test_bad_tournaments_are_told_in_a_sentence(given: dict[str, object], complaint: str) -> None:
    made: dict[str, object] = {"questions": questions(), "answers": answers(["m1", "m2"]), **given}
    with pytest.raises(MagistrateError, match=complaint):
        Tournament(**made)  # type: ignore[arg-type]
