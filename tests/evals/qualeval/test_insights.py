"""Sentences held against the tables they speak of."""

from __future__ import annotations

import pytest

from evals.qualeval.insights import Tables, check, overall

TABLES = Tables(
    "davinci",
    "domain",
    priors={"Sorting": 0.29, "Tuple Manipulation": 0.07, "Top 10 lists": 0.64},
    proficiency={"Sorting": 0.8125, "Tuple Manipulation": 0.4, "Top 10 lists": 0.5},
    distances={"Sorting": 0.05, "Tuple Manipulation": 0.123, "Top 10 lists": 0.2},
    counts={"Sorting": 58, "Tuple Manipulation": 14, "Top 10 lists": 128},
)


@pytest.mark.parametrize(
    "text",
    [
        "Sorting makes up 29% of the data.",
        "The model reaches 0.81 on sorting, 81.3 % in other words.",
        "There are 3 domains.",
        "It is weak at Tuple Manipulation (40%), of which there are 14 instances.",
        "Distances go up to 0.2 and 12.3%.",
        "The model has the highest proficiency in Sorting.",
        "Its lowest proficiency is in Tuple Manipulation, at .40.",
        "Sorting makes up 29 percent of the data, Sorting reaches 81 per cent.",
        "Top 10 lists are common.",
        "It performs best in Sorting and Top 10 lists.",
        "It is a good model.",
        "7. The model uses each skill.",
        "12) Sorting reaches 0.81.",
        "",
    ],
)
def test_what_the_tables_say_is_not_flagged(text: str) -> None:
    assert check(text, TABLES).flag is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Sorting makes up 30% of the data.", "says 30%"),
        ("Sorting reaches 0.4.", "proficiency of Sorting 0.812"),
        ("Sorting reaches .4.", "says .4"),
        ("Sorting reaches 81.25.", "says 81.25"),
        ("Its proficiency goes up to 10.667.", "says 10.667"),
        ("Sorting is 29 of the data.", "says 29"),
        ("1. Sorting is 29 of the data.", "says 29"),
        ("Tuple Manipulation has 128 instances.", "says 128"),
        ("There are 4 domains, the model reaches 99.9% in all of them.", "says 4, 99.9%"),
        ("The highest proficiency is in Top 10 lists.", "calls Top 10 lists the highest, which is Sorting"),
        ("The model performs worst in Sorting.", "which is Tuple Manipulation"),
    ],
)
def test_what_they_contradict_is_flagged_with_why(text: str, told: str) -> None:
    flag = check(text, TABLES).flag
    assert flag is not None
    assert told in flag


def test_every_number_is_told_with_the_figure_that_it_is() -> None:
    found = check("Sorting is 29% of the data, and the model scores 81% there, not 90%.", TABLES).checked
    assert [(one.number, one.where) for one in found] == [
        ("29%", "prior of Sorting"),
        ("81%", "proficiency of Sorting"),
        ("90%", None),
    ]


def test_all_attributes_are_held_against_the_tables_of_both_kinds() -> None:
    skills = Tables(
        "davinci",
        "subtask",
        priors={"Sorting": 0.6, "Parse the text": 0.4},
        proficiency={"Sorting": 0.9, "Parse the text": 0.1},
        distances={"Sorting": 0.35},
        counts={"Sorting": 90, "Parse the text": 60},
    )
    both = overall([TABLES, skills])
    assert list(both.priors) == ["Sorting (domain)", "Tuple Manipulation", "Top 10 lists", "Sorting (subtask)", "Parse the text"]
    for true in (
        "Sorting (domain) makes up 29% of the data, Sorting (subtask) 60%.",
        "Its distance in Sorting (subtask) is 35%.",
        "There are 3 domains and 2 subtasks, 5 attributes in all.",
        "Among domains it performs best in Sorting (domain).",
        "Its lowest proficiency is in Parse the text.",
    ):
        assert check(true, both).flag is None, true
    flag = check("Its highest proficiency is in Parse the text.", both).flag
    assert flag == "calls Parse the text the highest, which is Sorting (subtask) (0.9, not 0.1)"
