import re
from typing import Any

import pytest

from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.fitting import check_columns, check_rows, suggested
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise


def rows(*samples: dict[str, Any] | None) -> list[Row]:
    bad = "is not JSON"
    places = [(f"f row {number}", sample) for number, sample in enumerate(samples, start=1)]
    return [Row(place, place, sample, None if sample is not None else f"{place}: {bad}") for place, sample in places]


@pytest.mark.parametrize(
    ("fields", "columns", "wanted"),
    [
        (("context", "response"), ("id", "prompt", "answer"), {"context": "prompt", "response": "answer"}),
        (("context", "response"), ("question", "output"), {"context": "question", "response": "output"}),
        (("context", "response"), ("Contexts", "responce"), {"context": "Contexts", "response": "responce"}),
        (("context", "response"), ("Prompt", "Model Output"), {"context": "Prompt"}),
        (("input", "actual_output", "expected_output", "references"), ("question", "answer", "ground_truth", "contexts"),
         {"input": "question", "actual_output": "answer", "expected_output": "ground_truth", "references": "contexts"}),
        (("question", "answer_a", "answer_b"), ("instruction", "response1", "response2"),
         {"question": "instruction", "answer_a": "response1", "answer_b": "response2"}),
        (("question", "answer_a", "answer_b"), ("Question", "Answer A", "answer-B"),
         {"question": "Question", "answer_a": "Answer A", "answer_b": "answer-B"}),
        (("context",), ("zebra",), {}),
    ],
)  # fmt: skip
def test_columns_of_the_same_meaning_are_found(fields: tuple[str, ...], columns: tuple[str, ...], wanted: dict[str, str]) -> None:
    assert suggested(fields, columns) == wanted


@pytest.mark.parametrize(
    ("judge", "samples", "columns", "words"),
    [
        (LLMEval(), [{"prompt": "a", "answer": "b"}], {}, "no row of f has the fields `context`, `response` "
         "that judge `llm-eval` needs; its columns are `prompt`, `answer`; try `--field context=prompt --field response=answer`"),
        (LLMEval(), [{"context": "a", "answer": "b"}], {}, "the field `response` that .*; try `--field response=answer`"),
        (LLMEval(), [{"zebra": 1}], {}, "name their columns with `--field context=COLUMN --field response=COLUMN`"),
        (LLMEval(), [{"prompt": "a"}], {"context": "promt"}, "no column `promt`, which `--field context=promt` names; "
         "its columns are `prompt`; did you mean `prompt`"),
        (LLMEval(), [{"prompt": "a", "answer": "b"}], {"context": "prompt"}, "try `--field response=answer`"),
        (LLMEval(), [{"context": 1, "response": "b"}] * 2, {}, "none of the 2 rows of f can be judged: f row 1: field `con"),
        (Grouse(), [None], {}, "the only row of f cannot be judged: f row 1: is not JSON"),
        (Grouse(), [None, None], {}, "none of the 2 rows of f can be judged: f row 1: is not JSON"),
        (Pairwise(), [], {}, "f holds no samples"),
    ],
)  # fmt: skip
def test_rows_that_no_judge_can_be_asked_about_are_one_sentence(
    judge: Judge, samples: list[dict[str, Any] | None], columns: dict[str, str], words: str
) -> None:
    with pytest.raises(MagistrateError) as caught:
        check_rows(rows(*samples), judge, columns, "f")
    assert re.search(words, str(caught.value))


def test_one_row_is_enough_and_no_more_are_drawn() -> None:
    drawn = iter(rows({"prompt": "a"}, None, {"context": "a", "response": "b"}, {"prompt": "z"}))
    check_rows(drawn, LLMEval(), {}, "f")
    assert len(list(drawn)) == 1
    check_rows(rows({"dialogue": "a"}), LLMEval(), {}, "f")
    check_rows(rows({"said": "a", "reply": "b"}), LLMEval(), {"context": "said", "response": "reply"}, "f")


def test_a_field_that_no_judge_reads_is_refused() -> None:
    with pytest.raises(MagistrateError, match=r"`--field ctx=a`: judge `llm-eval` has no field `ctx`; it reads `context`, `resp"):
        check_columns([LLMEval()], {"ctx": "a"})
    check_columns([LLMEval(), Pairwise()], {"context": "a", "answer_a": "b"})
