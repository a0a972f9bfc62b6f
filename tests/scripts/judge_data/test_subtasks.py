import random

from scripts.judge_data.subtasks import (
    CODE_NAMES,
    SUMMARY_NAMES,
    SUMMARY_PATTERNS,
    TASK_PATTERNS,
    halved,
    in_code,
    in_summary,
    in_task,
    stub,
)

CODE = "def fact(n):\n    if n < 2:\n        return 1\n    items = sorted([n, 1])\n    return items[1] * fact(n - 1)"


def test_a_program_shows_what_it_uses_and_no_more() -> None:
    used = {name for name, found in in_code(CODE).items() if found.rating > 1}
    assert used == {"sorting", "recursion", "conditions", "arithmetic", "lists"}
    assert in_code(CODE)["sorting"].evidence == "sorted([n, 1])"


def test_an_empty_program_shows_nothing() -> None:
    assert {found.rating for found in in_code(stub(CODE)).values()} == {1}


def test_a_halved_program_shows_less() -> None:
    whole, half = in_code(CODE), in_code(halved(CODE, random.Random(0)))
    assert half["recursion"].rating == 1 < whole["recursion"].rating


def test_what_a_task_names_counts_more_than_what_its_solution_happens_to_use() -> None:
    found = in_task("Write a function to sort numbers.", CODE)
    assert (found["sorting"].rating, found["lists"].rating, found["sets"].rating) == (5, 3, 1)


def test_code_that_cannot_be_read_shows_nothing() -> None:
    assert in_code("def broken(:") == {}


def test_a_summary_shows_what_it_says() -> None:
    found = in_summary("#Person1# asks #Person2# to meet on Monday.", "#Person1#: Monday? It costs 5 dollars.")
    assert found["times"].rating == 4
    assert found["times"].evidence == "meet on Monday"
    assert found["numbers"].rating == 2, "the dialogue alone has a number: a tag's does not count"
    assert found["reasons"].rating == 1


def test_every_subtask_has_a_name_and_a_way_to_be_found() -> None:
    assert CODE_NAMES.keys() == TASK_PATTERNS.keys() == in_code(CODE).keys()
    assert SUMMARY_NAMES.keys() == SUMMARY_PATTERNS.keys()
    for names in (CODE_NAMES, SUMMARY_NAMES):
        together = [name for group in names.values() for name in group]
        assert len(set(together)) == len(together)
