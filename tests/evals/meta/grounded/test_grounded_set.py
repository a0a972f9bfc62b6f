"""The project's own test cases: that each is what its kind says."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from evals.meta.grounded.cases import OWN, Case, read_cases
from evals.meta.grounded.conditions import ALL
from evals.meta.grounded.study import result
from judges.data.rows import read_rows
from judges.grouse import MOST_REFERENCES, Grouse
from judges.verdict import Verdict

REFUSAL = "No document seems to precisely answer your question."
CASES = read_cases().cases
KINDS = list(dict.fromkeys(case.kind for case in CASES))
SETS: dict[str, dict[str, Case]] = defaultdict(dict)
for one in CASES:
    SETS[one.set][one.kind] = one

ANSWERING = KINDS[:10]
"""Kinds whose references answer the question."""

REFUSING = {
    "wrong refusal",
    "wrong refusal with related information",
    "refusal with related information",
    "refusal with wrong citations",
    "refusal with useless information",
    "refusal alone",
}

COMMON = {"about", "from", "into", "that", "their", "them", "there", "these", "this", "when", "which", "with"}


def of(kind: str) -> list[Case]:
    return [case for case in CASES if case.kind == kind]


def said(case: Case) -> str:
    return str(case.sample["actual_output"])


def claims(text: str) -> list[tuple[str, int]]:
    """What stands before each citation, and the number that it cites."""
    parts = re.split(r"\[(\d+)\]", text.removeprefix(REFUSAL).replace("However, the documents indicate that", ""))
    return [(claim, int(number)) for claim, number in zip(parts[::2], parts[1::2], strict=False)]


def words(text: str) -> set[str]:
    """Words of four letters and more by their beginnings, and numbers."""
    return {word[:5] for word in re.findall(r"[^\W\d_]{4,}|\d+(?:\.\d+)?", text.lower())} - COMMON


def support(claim: str, reference: str, besides: str = "") -> float:
    """The share of a claim's words that its reference has too, besides those of the question, say."""
    own = words(claim) - words(besides)
    return len(own & words(reference)) / len(own)


def figures(text: str) -> set[str]:
    """Numbers and names within a sentence: what a reference must have as it stands."""
    return set(re.findall(r"\d+(?:\.\d+)?", text)) | set(re.findall(r"(?<=[a-z,] )[A-Z][\w-]+", text))


def test_there_are_sixteen_kinds_for_each_of_nine_questions() -> None:
    assert (len(CASES), len(SETS), len(KINDS)) == (144, 9, 16)
    assert all(list(cases) == KINDS for cases in SETS.values())
    assert len({case.id for case in CASES}) == len(CASES)
    assert all(case.goal for case in CASES)
    assert read_cases().faults == []


def test_conditions_are_those_of_the_kind() -> None:
    for kind in KINDS:
        assert len({tuple(str(case.conditions[metric]) for metric in ALL) for case in of(kind)}) == 1
    assert len({tuple(str(one) for one in of(kind)[0].conditions.values()) for kind in KINDS}) == 15
    assert of("no citations")[0].conditions == of("wrong citations")[0].conditions


def test_relevancy_and_completeness_go_by_refusal_and_references() -> None:
    for case in CASES:
        refuses, answerable = said(case).startswith(REFUSAL), case.kind in ANSWERING
        assert refuses == (case.kind in REFUSING)
        assert REFUSAL not in said(case)[1:]
        assert refuses == (case.conditions["answer_relevancy"].bound is None)
        assert answerable == (case.conditions["completeness"].bound is not None)
        alone = said(case) == REFUSAL
        assert alone == (case.conditions["faithfulness"].bound is None)
        assert (refuses and not alone) == (case.conditions["usefulness"].bound is not None)


def test_references_are_those_of_a_question_and_of_what_the_kind_needs() -> None:
    for cases in SETS.values():
        full = cases["good answer"].sample["references"]
        related = cases["refusal with related information"].sample["references"]
        unrelated = cases["refusal alone"].sample["references"]
        for kind, case in cases.items():
            wanted = full if kind in ANSWERING else unrelated if kind == "refusal alone" else related
            assert case.sample["references"] == wanted
        assert (len(full), len(related), len(unrelated)) == (5, 3, 3)
        assert all(len(set(one)) == len(one) <= MOST_REFERENCES for one in (full, related, unrelated))
        assert len(set(full) & set(related)) == 2, "one that is related and one that is off topic"
        assert len(set(related) & set(unrelated)) == 1, "the one off topic"


def test_a_good_answer_says_what_the_references_say_and_cites_them() -> None:
    for case in CASES:
        if str(case.conditions["faithfulness"]) != "==1":
            continue
        found = claims(said(case))
        assert found
        assert said(case).endswith("]."), "every sentence is cited"
        for claim, number in found:
            reference = case.sample["references"][number - 1]
            assert figures(claim) <= set(re.findall(r"\d+(?:\.\d+)?|[\w-]+", reference)), (case.id, claim)
            assert support(claim, reference) >= 0.6, (case.id, claim)


def test_expected_answers_have_the_form_that_the_card_asks_for() -> None:
    for case in CASES:
        expected = case.sample["expected_output"]
        assert expected.startswith(REFUSAL) == (case.kind not in ANSWERING)
        assert (expected == REFUSAL) == (case.kind == "refusal alone")
        for sentence in re.findall(r"[^.]+(?:\.\d[^.]*)*\.", expected.removeprefix(REFUSAL)):
            assert re.search(r"\[\d+\]\.$", sentence), sentence
        for claim, number in claims(expected):
            assert support(claim, case.sample["references"][number - 1]) >= 0.6, (case.id, claim)


def test_a_good_answer_is_complete_and_others_are_as_far_as_they_say() -> None:
    for cases in SETS.values():
        facts = claims(cases["good answer"].sample["expected_output"])
        assert len(facts) == 4
        answering = {number for _, number in facts}
        assert {number for _, number in claims(said(cases["good answer"]))} == answering
        assert said(cases["good answer"]) != cases["good answer"].sample["expected_output"]
        covered = {
            kind: sum(support(fact, said(cases[kind]), cases[kind].set) >= 0.5 for fact, _ in facts)
            for kind in ("good answer", "partly complete", "barely complete", "wholly off topic")
        }
        assert list(covered.values()) == [4, 2, 1, 0], (covered, cases["good answer"].id)


def test_what_is_off_topic_shares_nothing_with_the_question() -> None:
    for cases in SETS.values():
        good, off = said(cases["good answer"]), said(cases["wholly off topic"])
        assert said(cases["off-topic sentences added"]) == f"{good} {off}"
        useless = said(cases["refusal with useless information"]).removeprefix(f"{REFUSAL} However, the documents indicate that")
        for text in (off, useless):
            assert not words(text) & words(cases["good answer"].set), text


def test_what_is_unfaithful_is_so_in_the_way_of_its_kind() -> None:
    for cases in SETS.values():
        good = said(cases["good answer"])
        bare = re.sub(r" \[\d+\]", "", good)
        assert said(cases["no citations"]) == bare
        assert re.sub(r" \[\d+\]", "", said(cases["wrong citations"])) == bare
        for kind, least in (("wrong citations", 0.5), ("refusal with wrong citations", 0.4)):
            for claim, number in claims(said(cases[kind])):
                assert 1 <= number <= len(cases[kind].sample["references"])
                assert support(claim, cases[kind].sample["references"][number - 1], cases[kind].set) < least, claim
        right = dict(claims(good))
        assert all(right[claim] != number for claim, number in claims(said(cases["wrong citations"])))
        distorted = claims(said(cases["distorted fact"]))
        references = cases["distorted fact"].sample["references"]
        assert [number for _, number in distorted] == [number for _, number in claims(good)]
        together = zip(distorted, claims(good), strict=True)
        ((claim, before, number),) = [(one, other, number) for (one, number), (other, _) in together if one != other]
        assert support(claim, references[number - 1]) < support(before, references[number - 1])
        for claim, number in claims(said(cases["missing refusal with invented answer"])):
            assert support(claim, cases["missing refusal with invented answer"].sample["references"][number - 1]) < 0.5


def test_related_information_does_not_answer() -> None:
    for cases in SETS.values():
        facts = [fact for fact, _ in claims(cases["good answer"].sample["expected_output"])]
        for kind in ("wrong refusal with related information", "refusal with related information"):
            assert [fact for fact in facts if support(fact, said(cases[kind]), cases[kind].set) >= 0.5] == []
        for reference in cases["refusal with related information"].sample["references"]:
            assert [fact for fact in facts if support(fact, reference, cases[kind].set) >= 0.5] == []


def test_the_judge_takes_the_cases_without_a_remark() -> None:
    judge = Grouse()
    for row in read_rows(OWN):
        assert row.sample is not None
        assert judge.render(row.sample).notes == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_can_be_passed(kind: str) -> None:
    legal = {"answer_relevancy": (None, 1, 2, 3, 4, 5), "completeness": (None, 1, 2, 3, 4, 5)}
    for case in of(kind):
        grades = {
            metric: next(score for score in legal.get(metric, (None, 1, 0)) if case.conditions[metric].holds(score))
            for metric in ("answer_relevancy", "completeness", "usefulness", "faithfulness")
        }
        verdict = Verdict(id=case.id, judge="grouse", status="scored", scores=grades, sample="", fingerprint="")
        assert set(result(case, verdict).outcomes.values()) == {"passed"}
