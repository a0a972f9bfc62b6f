"""Tournaments: usual, hostile, large and bare ones, and the one of the guide."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evals.arena.battles import BattleList, Battles, style_of
from evals.arena.pairing import Game
from evals.arena.rating import Options
from evals.arena.storage import examples
from evals.arena.study import report
from evals.arena.tournament import Tournament, game_id
from evals.data.answers import Answers
from evals.data.comparisons import Record
from evals.data.questions import Question, QuestionSet
from evals.data.tasks import Fault
from judges.orders import TIE
from judges.verdict import Verdict

JUDGE = "auto-j-13b"
MODELS = ("qwen-7b-chat", "internlm-chat-7b", "chatglm2-6b", "baichuan-13b-chat", "llama-2-7b-chat")
CAPABILITIES = ("common knowledge", "reasoning", "writing")
REASONS = ("the answer was cut off", "the answer is no JSON")

TAKEN = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
SPOILED = "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\0\x1b[31m"
LONG = "m" * 300
NAMES = (
    TAKEN,
    f"{LONG}-1",
    f"{LONG}-2",
    "a|b \\| c\nd",
    SPOILED,
    "👩‍🚀 שלום",
    "",
    "{{ 7 * 7 }} **bold** `x` [l](https://e.com)",
    "constructor",
)
"""Names that would like to be something else; two of them differ only where no chart has room for it."""

GUIDE = ("chatglm2-6b-hf", "qwen-7b-chat-hf", "internlm-chat-7b-hf")

ONE_SIDED = [("1", "one", "other", "A"), ("2", "one", "other", "A"), ("1", "one", "third", "A"), ("2", "other", "third", "A")]


def usual(seed: int = 7, models: Sequence[str] = MODELS, questions: int = 40, judge: str | None = JUDGE) -> Battles:
    """All pairs in both orders, with everything that battles may have."""
    chance = np.random.default_rng(seed)
    made = BattleList(models)
    strengths = np.linspace(0.9, -0.9, len(models))
    for question in range(questions):
        answers = [style_of([text]) for text in answers_to(question, models)]
        for one, other in combinations(range(len(models)), 2):
            told: dict[str, Any] = {
                "capability": CAPABILITIES[question % 3],
                "language": "EN" if question % 4 else "CN",
                "judge": judge,
                "style_a": answers[one],
                "style_b": answers[other],
            }
            luck = chance.random()
            if luck < 0.02:
                made.add(Record(str(question), models[one], models[other], None, identical=True, **told))
            elif luck < 0.06:
                made.add(Record(str(question), models[one], models[other], None, reason=REASONS[question % 2], **told))
            else:
                chosen = list(_choices(chance, strengths[one] - strengths[other]))
                preference = chosen[0] if chosen[0] == chosen[1] else TIE
                probability = round(float(1 / (1 + np.exp(-strengths[one] + strengths[other] + chance.normal(0, 0.5)))), 4)
                known = {"orders": tuple(chosen), "probability": probability, **told}
                made.add(Record(str(question), models[one], models[other], preference, **known))
    return made.battles()


def _choices(chance: np.random.Generator, gap: float) -> Iterator[str]:
    """The choices of a judge that likes whatever stands first."""
    for favour in (0.25, -0.25):
        wins = 1 / (1 + np.exp(-2 * gap - favour))
        yield str(chance.choice(["A", "both", "B", "neither"], p=[0.8 * wins, 0.12, 0.8 * (1 - wins), 0.08]))


def answers_to(question: int, models: Sequence[str]) -> list[str]:
    """An answer of each model, of different length, some with Markdown."""
    return [
        f"{name[:20]} answers {question}.\n    indented = {place}  # by four\n"
        + "# A header\n" * ((question + place) % 3)
        + "so **much** " * ((question + 2 * place) % 5)
        + "\n- an item" * ((question * place) % 4)
        + " word" * (3 * place + question % 7)
        for place, name in enumerate(models)
    ]


def hostile() -> Battles:
    """Names, capabilities, reasons and questions that would like to be something else."""
    made = BattleList(NAMES)
    places = range(len(NAMES))
    for question in range(4):
        for one, other in combinations(places, 2):
            preference = ("A", "B", "both", "neither", TIE)[(question * 3 + one + other) % 5]
            told: dict[str, Any] = {"capability": NAMES[question + 3], "language": (TAKEN, SPOILED)[question % 2], "judge": TAKEN}
            if (one, other) == (0, 1):
                made.add(Record(NAMES[question], NAMES[one], NAMES[other], None, reason=NAMES[question + 3], **told))
            else:
                made.add(Record(NAMES[question], NAMES[one], NAMES[other], preference, orders=("A", "B"), **told))
    return made.battles()


def hostile_report() -> dict[str, Any]:
    """With faults and facts of the same kind."""
    faults = [Fault(TAKEN, 30, [TAKEN, SPOILED, ""], TAKEN), Fault(SPOILED, 1, ["|"])]
    made = {"judge": TAKEN, "judge_model": TAKEN, "engine": SPOILED, "source": "|\n" + TAKEN}
    return report(hostile(), Options(baseline=TAKEN, anchor=NAMES[4], rounds=40, count="pairs"), faults=faults, made=made)


def hostile_examples() -> dict[str, Any]:
    """To be read on the page: two models, and texts that would like to be something else."""
    texts = [TAKEN, SPOILED, f"{LONG}\n\n  <b>|</b>", "👩‍🚀 שלום", "<!-- <script>"]
    return {
        "models": list(NAMES),
        "questions": [
            {"index": text, "text": text, "capability": text, "language": None, "answers": [text] * len(NAMES)} for text in texts
        ],
        "battles": [[place, 0, 1, "A", ["A", "A"], text] for place, text in enumerate(texts)],
        "left_out": 3,
    }


def many() -> Battles:
    """Forty models."""
    return usual(3, [f"model-{number}-instruct" for number in range(40)], questions=3)


def only(*rows: tuple[str, str, str, str | None], models: Sequence[str] = ()) -> Battles:
    """These battles, and nothing known beside."""
    made = BattleList(models)
    for row in rows:
        made.add(Record(*row))
    return made.battles()


BARE: Mapping[str, Battles] = {
    "one game": only(("q", "one", "other", "A")),
    "all ties": only(*((str(number), "one", "other", "both") for number in range(5))),
    "nothing scored": only(("1", "one", "other", None), ("2", "one", "other", None)),
    "no games": only(models=("one", "other")),
    "separable": only(*ONE_SIDED),
    "one unrated": only(
        *((str(number), "one", "other", "AB"[number % 2]) for number in range(6)), models=("one", "other", "idle")
    ),
}
"""Tournaments of which little can be said."""


def guide() -> Battles:
    """Battles that come to the figures of the guide's own example: ten of each pair of three models, all of one kind."""
    chatglm, qwen, internlm = GUIDE
    made = BattleList(GUIDE)
    number = 0
    for one, other, results in (
        (chatglm, qwen, {"A": 5, "B": 5}),
        (internlm, qwen, {"A": 5, "B": 5}),
        (chatglm, internlm, {"A": 1, "B": 1, "neither": 8}),
    ):
        for preference, times in results.items():
            for _ in range(times):
                made.add(Record(str(number), one, other, preference, capability="common", language="CN"))
                number += 1
    return made.battles()


def usual_report() -> dict[str, Any]:
    """The usual tournament's, against a baseline and with an anchor."""
    options = Options(baseline="chatglm2-6b", anchor="llama-2-7b-chat", anchor_rating=800, rounds=60)
    made = {"judge": "pairwise", "judge_model": JUDGE, "engine": "vllm 0.1", "pairs": "all", "fingerprint": "0123abcd"}
    return report(usual(), options, faults=[Fault("has no answer", 2, ["3", "9"], MODELS[2])], made=made)


def usual_examples() -> dict[str, Any]:
    """The usual tournament's battles, to be read on the page."""
    battles = usual()
    questions = [
        Question(
            str(number), (f"Question {number}?", "And then?"), None, None, CAPABILITIES[number % 3], "EN" if number % 4 else "CN"
        )
        for number in range(40)
    ]
    texts = [answers_to(number, MODELS) for number in range(40)]
    answers = [
        Answers(name, {str(number): (texts[number][place],) for number in range(40)}, []) for place, name in enumerate(MODELS)
    ]
    tournament = Tournament(questions=QuestionSet(questions, [], (), Path("questions.jsonl")), answers=answers)
    games = [
        Game(battles.question.names[question], MODELS[one], MODELS[other])
        for question, one, other in zip(battles.question.codes, battles.first, battles.second, strict=True)
    ]
    verdicts = {game_id(game): _verdict(game) for game in games}
    by_model = {one.model: one.texts for one in tournament.answers}
    return examples(battles, tournament.questions.questions, by_model, verdicts)


def _verdict(game: Game) -> Verdict:
    reasons = f"{game.model_a} is <b>more</b> exact on {game.question}."
    return Verdict(
        id=game_id(game), judge="pairwise", status="scored", justification=reasons, sample=json.dumps(game), fingerprint="f"
    )
