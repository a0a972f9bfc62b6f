"""The forms in which verdicts on pairs of answers are published, each read into the same record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evals.data.fields import first_of, language_named, name_of, turns_in
from evals.data.tables import finite, number_in
from judges.data.rows import Row
from judges.judge import Sample
from judges.orders import CHOICES, SWAPPED, TIE

ARENA_HARD_BASELINE = "gpt-4-0314"
"""Of Arena-Hard-Auto v0.1, whose judgments do not name it."""

ALPACA_EVAL_DRAW = 1.5

STYLE = ("length", "headers", "bold", "lists")
"""What is measured of an answer's form: characters, and Markdown's headers, bold parts and items of lists."""

WINNERS: Mapping[str, str] = {
    "model_a": "A",
    "a": "A",
    "[[a]]": "A",
    "model_b": "B",
    "b": "B",
    "[[b]]": "B",
    "both": "both",
    "tie": "both",
    "[[c]]": "both",
    "neither": "neither",
    "tie (bothbad)": "neither",
    "both_bad": "neither",
    "tie (inconsistent)": TIE,
}
"""Words for a winner, in lower case, to the preference."""

ORDER_WINNERS = {"model_1": "A", "model_2": "B", "tie": "both"}
GAME_SCORES = {"A>>B": "A", "A>B": "A", "A=B": "both", "B=A": "both", "B>A": "B", "B>>A": "B"}


class Record(NamedTuple):
    """A comparison of two models' answers to a question.

    Attributes:
        question: Its index or name; the instruction itself in AlpacaEval's annotations.
        model_a: One model.
        model_b: The other one.
        preference: ``A``, ``both``, ``B``, ``neither``, or ``tie`` where the choice changed with the order; ``None``: not scored.
        reason: Why it is not scored.
        orders: The choice with A first and that with B first, told of A and B; only the first if one was made; none if unknown.
        probability: That A is the better one, by the judge.
        capability: What the question asks of a model.
        language: Of the question.
        judge: Who compared.
        answer_a: A's answer where the file has it, turns joined by blank lines.
        answer_b: B's answer.
        identical: Whether both answers are the same, and so are not judged.
        style_a: What is measured of the form of A's answer, as ``STYLE`` lists it, where the file says.
        style_b: Of B's answer.
    """

    question: str
    model_a: str
    model_b: str
    preference: str | None
    reason: str | None = None
    orders: Sequence[str] = ()
    probability: float | None = None
    capability: str | None = None
    language: str | None = None
    judge: str | None = None
    answer_a: str | None = None
    answer_b: str | None = None
    identical: bool = False
    style_a: Sequence[float] | None = None
    style_b: Sequence[float] | None = None


def common_of(row: Row, sample: Sample, model_a: Any, model_b: Any) -> Record:
    """A record without its preference. The row's place stands for a question that it does not name."""
    judge = sample.get("judge", sample.get("annotator"))
    return Record(
        question=name_of(first_of(sample, ("question_id", "index", "uid", "question", "instruction"))) or row.place,
        model_a=name_of(model_a) or "",
        model_b=name_of(model_b) or "",
        preference=None,
        capability=name_of(first_of(sample, ("capability", "category"))),
        language=language_named(sample.get("language")),
        judge=" ".join(map(str, judge)) if isinstance(judge, list) else name_of(judge),
        answer_a=_answer(first_of(sample, ("answer_a", "conversation_a", "output_1"))),
        answer_b=_answer(first_of(sample, ("answer_b", "conversation_b", "output_2"))),
    )


def _answer(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        value = [turn for turn in value if not isinstance(turn, Mapping) or turn.get("role", "assistant") == "assistant"]
    try:
        return "\n\n".join(turns_in(value)) or None
    except ValueError:  # a conversation of another form; the verdict stands without it
        return None


def checked(record: Record) -> Record:
    if record.model_a == record.model_b:
        return record._replace(preference=None, orders=(), reason=f"`{record.model_a}` is compared with itself")
    return record


def _plain(row: Row, sample: Sample) -> Record:
    record = common_of(row, sample, sample["model_a"], sample["model_b"])
    record = record._replace(style_a=_style(sample.get("style_a")), style_b=_style(sample.get("style_b")))
    ours = "winner" not in sample
    word = sample["preference" if ours else "winner"]
    if ours and word in (None, "") and sample.get("identical") is True:
        return record._replace(identical=True)
    said = name_of(word)
    if said is None:
        given = name_of(sample.get("reason")) if ours else None
        missing = given or "no winner is given"
        return record._replace(reason=missing if word in (None, "") else f"the winner {quoted(word)} is no word")
    preference = TIE if ours and said.lower() == TIE else WINNERS.get(said.lower())
    if preference is None:
        return record._replace(reason=f"the winner {quoted(word)} is not known")
    probability = _number(sample.get("probability"))
    known = probability is not None and 0 <= probability <= 1
    return record._replace(
        preference=preference, orders=_orders(sample) if ours else (), probability=probability if known else None
    )


def _style(given: Any) -> tuple[float, ...] | None:
    """What an arena measured of an answer's form."""
    if not isinstance(given, dict):
        return None
    found = [_number(given.get(name)) for name in STYLE]
    known = tuple(one for one in found if one is not None and one >= 0)
    return known if len(known) == len(STYLE) else None


def _orders(sample: Sample) -> tuple[str, ...]:
    """The choices by order that an arena wrote beside a preference."""
    orders = sample.get("orders")
    if not isinstance(orders, list) or not all(choice in CHOICES for choice in orders):
        return ()
    return tuple(orders[:2])


def _mt_bench(row: Row, sample: Sample) -> Record:
    record = common_of(row, sample, sample["model_1"], sample["model_2"])
    words = [sample["g1_winner"], sample["g2_winner"]]
    return _of_orders(record, words, [ORDER_WINNERS.get(word) if isinstance(word, str) else None for word in words])


def _arena_hard(row: Row, sample: Sample) -> Record:
    v01 = ARENA_HARD_BASELINE if "question_id" in sample else None
    record = common_of(row, sample, sample.get("baseline") or v01, sample["model"])
    games = sample["games"] if isinstance(sample["games"], list) else []
    words = [game.get("score") if isinstance(game, Mapping) else None for game in games]
    if len(words) not in (1, 2):
        return record._replace(reason=f"there are {len(words)} games, not two")
    choices = [GAME_SCORES.get(word) if isinstance(word, str) else None for word in words]
    return _of_orders(record, words, [*choices[:1], *(one and SWAPPED.get(one, one) for one in choices[1:])])


def _of_orders(record: Record, words: list[Any], choices: list[str | None]) -> Record:
    """The verdict of one order or of two, each told of A and B; ``words`` are the file's own."""
    for name, word, choice in zip(("first", "second"), words, choices, strict=False):
        if choice is None:
            return record._replace(reason=f"the {name} order's verdict is {quoted(word)}")
    told = tuple(choice for choice in choices if choice is not None)
    return record._replace(preference=told[0] if len(set(told)) == 1 else TIE, orders=told)


def _alpaca_eval(row: Row, sample: Sample) -> Record:
    record = common_of(row, sample, sample["generator_1"], sample["generator_2"])
    preference = alpaca_eval_preference(sample["preference"])
    if preference is None:
        return record._replace(reason=f"the preference {quoted(sample['preference'])} is neither 0 nor a number from 1 to 2")
    choice = "both" if preference == ALPACA_EVAL_DRAW else "A" if preference < ALPACA_EVAL_DRAW else "B"
    return record._replace(preference=choice, probability=2 - preference)


def alpaca_eval_preference(cell: Any) -> float | None:
    """AlpacaEval's preference from 1, the first is better, to 2, with 1.5 for its draws, 0 and 1.5; ``None`` for other cells."""
    preference = _number(cell)
    if preference == 0:
        return ALPACA_EVAL_DRAW
    return preference if preference is not None and 1 <= preference <= 2 else None


def is_number(value: Any) -> bool:
    return not isinstance(value, bool) and finite(value) is not None


def _number(value: Any) -> float | None:
    return None if isinstance(value, bool) else number_in(value)


def quoted(value: Any) -> str:
    return f"`{str(value)[:40]}`"


FORMS: Mapping[tuple[str, ...], Callable[[Row, Sample], Record]] = {
    ("model_1", "model_2", "g1_winner", "g2_winner"): _mt_bench,
    ("model", "games"): _arena_hard,
    ("generator_1", "generator_2", "preference"): _alpaca_eval,
    ("model_a", "model_b", "winner"): _plain,
    ("model_a", "model_b", "preference"): _plain,
}
"""Fields that a form has to its reader."""
