"""Samples that people have rated, as published, each file in its own form: USR's two, GRADE, and DialSummEval.

Sources: Mehri and Eskenazi (2020), https://arxiv.org/abs/2005.00456; Huang et al. (2020), https://arxiv.org/abs/2010.03994;
Gao and Wan (2022), https://aclanthology.org/2022.naacl-main.418.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evals.data.tables import ratings_in
from evals.data.tasks import Fault, add_fault

USR = "USR"
TOPICALCHAT, PERSONACHAT = "TopicalChat (USR)", "PersonaChat (USR)"
USR_MODELS = {
    "Argmax Decoding": TOPICALCHAT,
    "Nucleus Decoding (p = 0.3)": TOPICALCHAT,
    "Nucleus Decoding (p = 0.5)": TOPICALCHAT,
    "Nucleus Decoding (p = 0.7)": TOPICALCHAT,
    "KV-MemNN": PERSONACHAT,
    "Language Model": PERSONACHAT,
    "Seq2Seq": PERSONACHAT,
}
"""The models whose responses one of USR's two files alone has. The two have the same fields."""

USR_QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
GROUND_TRUTH = "Original Ground Truth"
GRADE_SETS = {"convai2": "ConvAI2 (GRADE)", "dailydialog_EVAL": "DailyDialog (GRADE)"}
DIALSUMMEVAL = "DialSummEval"
DIALSUMMEVAL_QUALITIES = ("consistency", "relevance", "fluency", "coherence")
DIALSUMMEVAL_GOLD = "A"
"""The people who wrote SAMSum's summaries, as the authors' ``reproduce/analysis/analysis.py`` has it (commit 667118e)."""

PEOPLE = frozenset((GROUND_TRUTH, DIALSUMMEVAL_GOLD))
"""Systems whose text is the reference of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """A sample and what people say of it.

    Attributes:
        id: Distinct within the file.
        sample: As a judge takes it.
        ratings: Quality to each rater's number, always in the same order of raters; ``None`` where a rater gave none.
        set: The data set that it is of, where a file holds several.
        item: What it is about, a dialogue or a document: samples of one item are no news of other items.
        system: Who wrote what is rated; ``None`` where the file does not say.
    """

    id: str
    sample: Mapping[str, Any]
    ratings: Mapping[str, Sequence[float | None]]
    set: str
    item: str
    system: str | None = None


@dataclass(frozen=True, slots=True)
class RatedSet:
    """A file of rated samples.

    Attributes:
        name: What it is called.
        samples: In the file's order.
        qualities: What people rate, in the file's order.
        faults: What could not be used.
    """

    name: str
    samples: Sequence[Rated]
    qualities: Sequence[str]
    faults: Sequence[Fault] = field(default_factory=tuple)


Fields = Mapping[str, Any]
Faults = dict[str, Fault]
Reader = Callable[[Fields, int, Faults], Iterator[Rated]]
"""Makes samples of a row and its number, from 0, and counts what cannot be used."""


def recognised(row: Fields) -> tuple[str, Reader] | None:
    """What a file is called and how its rows are read, by what a row holds; ``None`` where it is none of these."""
    for fields, name, reader in FORMS:
        if fields <= row.keys():
            return (usr_set(row) if reader is _usr else name), reader
    return None


def usr_set(row: Fields) -> str:
    """The name of the USR file that a row is of, by the models that responded; ``USR`` where these do not tell."""
    answers = row["responses"] if isinstance(row["responses"], list) else []
    models = [str(answer.get("model")) for answer in answers if isinstance(answer, dict)]
    sets = {USR_MODELS[model] for model in models if model in USR_MODELS}
    return sets.pop() if len(sets) == 1 else USR


def rating_columns(qualities: Mapping[str, Any], row_id: str, faults: Faults) -> dict[str, list[float | None]]:
    """Quality to its ratings, of cells, with what is wrong counted."""
    found = {}
    for quality, cell in qualities.items():
        found[quality], problems = ratings_in(cell)
        for problem in problems:
            add_fault(faults, f"`{quality}` {problem}", row_id)
    return found


def _usr(row: Fields, number: int, faults: Faults) -> Iterator[Rated]:
    """A dialogue with several responses."""
    item, answers = f"usr-{number}", row["responses"]
    if not isinstance(answers, list) or not isinstance(row["context"], str):
        add_fault(faults, "has no list of responses to a text", item)
        return
    turns = [turn.strip() for turn in row["context"].strip().split("\n")]
    known = [answer for answer in answers if isinstance(answer, dict) and isinstance(answer.get("response"), str)]
    for place, answer in enumerate(answers):
        name = f"{item}-{place}"
        if answer not in known:
            add_fault(faults, "has no response", name)
            continue
        sample = {"context": turns, "response": answer["response"].strip()}
        if isinstance(row.get("fact"), str):
            sample["fact"] = row["fact"].strip()
        ratings = rating_columns({quality: answer.get(quality) for quality in USR_QUALITIES}, name, faults)
        yield Rated(id=name, sample=sample, ratings=ratings, set=usr_set(row), item=item, system=_system(answer.get("model")))


def _grade(row: Fields, number: int, faults: Faults) -> Iterator[Rated]:
    name, context, response = f"grade-{row.get('ID', number)}", row["Context"], row["Response"]
    if not isinstance(context, str) or not isinstance(response, str):
        add_fault(faults, "has no context or no response", name)
        return
    named = str(row.get("Dataset"))
    sample = {"context": [turn.strip() for turn in context.split("|||")], "response": response.strip()}
    ratings = rating_columns({"Quality": row["HumanScores"]}, name, faults)
    grade, system = GRADE_SETS.get(named, named), _system(row.get("DialogModel"))
    yield Rated(id=name, sample=sample, ratings=ratings, set=grade, item=context, system=system)


def _dialsummeval(row: Fields, number: int, faults: Faults) -> Iterator[Rated]:
    """The summary is judged as a reply to the dialogue. A turn begins with a bar between spaces."""
    item = f"dialsummeval-{row.get('id', number)}"
    name, dialogue, summary, given = f"{item}-{row.get('model_id', number)}", row["dialogue"], row["summary"], row["annotations"]
    if not isinstance(dialogue, str) or not isinstance(summary, str) or not isinstance(given, list):
        add_fault(faults, "has no dialogue, summary or annotations", name)
        return
    turns = [turn.strip() for turn in f" {dialogue} ".split(" | ")]
    people = [one if isinstance(one, dict) else {} for one in given]
    cells = {quality: [one.get(quality) for one in people] for quality in DIALSUMMEVAL_QUALITIES}
    sample = {"context": [turn for turn in turns if turn], "response": summary.strip()}
    ratings = rating_columns(cells, name, faults)
    yield Rated(id=name, sample=sample, ratings=ratings, set=DIALSUMMEVAL, item=item, system=_system(row.get("model_id")))


def _system(cell: Any) -> str | None:
    """The name in a cell; ``None`` if it holds none."""
    return cell.strip() or None if isinstance(cell, str) else None


def with_references(samples: Sequence[Rated]) -> list[Rated]:
    """The samples, each with what a person wrote on the same item as its reference; what people wrote has none."""
    written = {one.item: one.sample["response"] for one in reversed(samples) if one.system in PEOPLE}
    return [
        replace(one, sample={**one.sample, "reference": written[one.item]})
        if one.item in written and one.system not in PEOPLE
        else one
        for one in samples
    ]


FORMS: tuple[tuple[set[str], str, Reader], ...] = (
    ({"context", "responses"}, USR, _usr),
    ({"Context", "Response", "HumanScores"}, "GRADE", _grade),
    ({"dialogue", "summary", "annotations"}, DIALSUMMEVAL, _dialsummeval),
)
"""Fields that a row has, what the file is called, and its reader."""
