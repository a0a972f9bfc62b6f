"""Published ratings, each file's own form: USR's TopicalChat, GRADE, and DialSummEval.

Sources: Mehri and Eskenazi (2020), https://arxiv.org/abs/2005.00456; Huang et al. (2020), https://arxiv.org/abs/2010.03994;
Gao and Wan (2022), https://aclanthology.org/2022.naacl-main.418.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evals.meta.people.rated import Rated
from evals.meta.people.ratings import ratings_in
from evals.tasks import Fault, add_fault

USR = "TopicalChat (USR)"
USR_QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
GROUND_TRUTH = "Original Ground Truth"
GRADE_SETS = {"convai2": "ConvAI2 (GRADE)", "dailydialog_EVAL": "DailyDialog (GRADE)"}
DIALSUMMEVAL = "DialSummEval"
DIALSUMMEVAL_QUALITIES = ("consistency", "relevance", "fluency", "coherence")

Fields = Mapping[str, Any]
Faults = dict[str, Fault]
Reader = Callable[[Fields, int, Faults], Iterator[Rated]]
"""Makes samples of a row and its number, from 0, and counts what cannot be used."""


def recognised(row: Fields) -> tuple[str, Reader] | None:
    """What a file is called and how its rows are read, by what a row holds; ``None`` where it is none of these."""
    for fields, name, reader in FORMS:
        if fields <= row.keys():
            return name, reader
    return None


def rating_columns(qualities: Mapping[str, Any], row_id: str, faults: Faults) -> dict[str, list[float | None]]:
    """Quality to its ratings, of cells, with what is wrong counted."""
    found = {}
    for quality, cell in qualities.items():
        found[quality], problems = ratings_in(cell)
        for problem in problems:
            add_fault(faults, f"`{quality}` {problem}", row_id)
    return found


def _usr(row: Fields, number: int, faults: Faults) -> Iterator[Rated]:
    """A dialogue with several responses. The reference is the original next turn, which itself is given none."""
    item, answers = f"usr-{number}", row["responses"]
    if not isinstance(answers, list) or not isinstance(row["context"], str):
        add_fault(faults, "has no list of responses to a text", item)
        return
    turns = [turn.strip() for turn in row["context"].strip().split("\n")]
    known = [answer for answer in answers if isinstance(answer, dict) and isinstance(answer.get("response"), str)]
    truth = next((answer["response"].strip() for answer in known if answer.get("model") == GROUND_TRUTH), None)
    for place, answer in enumerate(answers):
        name = f"{item}-{place}"
        if answer not in known:
            add_fault(faults, "has no response", name)
            continue
        sample = {"context": turns, "response": answer["response"].strip()}
        if isinstance(row.get("fact"), str):
            sample["fact"] = row["fact"].strip()
        if truth is not None and answer.get("model") != GROUND_TRUTH:
            sample["reference"] = truth
        ratings = rating_columns({quality: answer.get(quality) for quality in USR_QUALITIES}, name, faults)
        yield Rated(id=name, sample=sample, ratings=ratings, set=USR, item=item)


def _grade(row: Fields, number: int, faults: Faults) -> Iterator[Rated]:
    name, context, response = f"grade-{row.get('ID', number)}", row["Context"], row["Response"]
    if not isinstance(context, str) or not isinstance(response, str):
        add_fault(faults, "has no context or no response", name)
        return
    named = str(row.get("Dataset"))
    sample = {"context": [turn.strip() for turn in context.split("|||")], "response": response.strip()}
    ratings = rating_columns({"Quality": row["HumanScores"]}, name, faults)
    yield Rated(id=name, sample=sample, ratings=ratings, set=GRADE_SETS.get(named, named), item=context)


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
    yield Rated(id=name, sample=sample, ratings=rating_columns(cells, name, faults), set=DIALSUMMEVAL, item=item)


FORMS: tuple[tuple[set[str], str, Reader], ...] = (
    ({"context", "responses"}, USR, _usr),
    ({"Context", "Response", "HumanScores"}, "GRADE", _grade),
    ({"dialogue", "summary", "annotations"}, DIALSUMMEVAL, _dialsummeval),
)
"""Fields that a row has, what the file is called, and its reader."""
