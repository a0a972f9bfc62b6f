"""What each judge says of itself: the fields that it reads, and the scores that it may give."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from judges.affinity import Affinity
from judges.errors import SampleError
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.rubric import Rubric
from judges.rubric_file import RubricFile
from tests.judges.test_every_judge import CASES

FILE = RubricFile.model_validate(
    {
        "name": "kind",
        "fields": ("reply", "tone"),
        "metric": (
            {"name": "kind", "description": "d", "scale": "1-5", "optional": True},
            {"name": "warm", "description": "d", "scale": ("no", "yes")},
        ),
    }
)
ALL: Mapping[str, tuple[Judge, dict[str, Any]]] = {
    **CASES,
    "rubric": (Rubric(FILE), {"reply": "a", "tone": "b"}),
    "affinity of answers": (Affinity(["Food"], output="generation"), {"input": "a", "generation": "b"}),
    "pairwise with a reference": (Pairwise(), {**CASES["pairwise"][1], "reference_answer": "a", "evaluating_guidance": "b"}),
}


class Noting(Mapping[str, Any]):
    """A sample that notes the names of fields that are asked for."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self.sample = sample
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return self.sample[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sample)

    def __len__(self) -> int:
        return len(self.sample)


@pytest.mark.parametrize("name", ALL)
def test_a_judge_reads_the_fields_that_it_names(name: str) -> None:
    judge, sample = ALL[name]
    noting = Noting(sample)
    judge.render(noting)
    assert noting.asked <= set(judge.fields.names)
    assert set(judge.fields.needed) <= noting.asked
    for field in judge.fields.needed:
        with pytest.raises(SampleError) as caught:
            judge.render({key: value for key, value in sample.items() if key != field})
        assert caught.value.field == field


def test_one_field_may_do_instead() -> None:
    assert LLMEval.fields.instead == "dialogue"
    LLMEval().render({"dialogue": "a"})


@pytest.mark.parametrize("name", ALL)
def test_every_metric_has_its_legal_scores(name: str) -> None:
    judge, _ = ALL[name]
    assert list(judge.legal) == list(judge.levels)
    for score in judge.numeric_scores:
        assert set(score.legal) <= set(judge.legal[score.metric])
    for metric, labels in judge.label_orders.items():
        assert set(labels) <= set(judge.legal[metric])


def test_null_is_legal_where_a_metric_may_not_apply() -> None:
    assert all(None in legal for legal in Grouse().legal.values())
    assert None not in LLMEval().legal["content"]
    assert (None in Rubric(FILE).legal["kind"], None in Rubric(FILE).legal["warm"]) == (True, False)
    assert set(Pairwise().legal["preference"]) == {"A", "B", "both", "neither", "tie"}
