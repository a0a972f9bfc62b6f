"""What the streams of examples have in common, on sources of a few rows."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from scripts.judge_data.attributes import attributes, closeness, kinship
from scripts.judge_data.examples import Choice, Example, rows
from scripts.judge_data.forms import FORMS
from scripts.judge_data.rubrics import rubrics
from scripts.judge_data.sources import Split, read_programs
from scripts.judge_data.summaries import on_scale, summaries

Stream = Callable[[Path, Split, random.Random], Iterator[list[Example]]]
STREAMS: list[Stream] = [summaries, rubrics, attributes]


def drawn(stream: Stream, sources: Path, split: Split = "train", seeds: int = 40) -> list[list[Example]]:
    return [group for seed in range(seeds) for group in islice(stream(sources, split, random.Random(seed)), 5)]


@pytest.mark.parametrize("split", ["train", "held-out"])
@pytest.mark.parametrize("stream", STREAMS)
def test_every_example_makes_a_row(stream: Stream, split: Split, sources: Path) -> None:
    rng = random.Random(0)
    for group in drawn(stream, sources, split):
        made = [row for example in group for row in rows(example, "row", rng)]
        assert len(made) == len(group) > 1
        for row in made:
            answer = row["messages"][-1]["content"]
            assert any("shown" in span for span in row["learn"])
            assert all(json.loads(answer[span["start"] : span["end"]]) != {} for span in row["learn"])


@pytest.mark.parametrize("stream", [summaries, rubrics])
def test_a_group_shares_all_that_stands_before_the_text(stream: Stream, sources: Path) -> None:
    for group in drawn(stream, sources):
        asked = [example.judge.render(example.sample).prompts[0].messages[0].content for example in group]
        texts = [list(example.sample.values())[-1] for example in group]
        assert len({prompt[: prompt.rindex(text)] for prompt, text in zip(asked, texts, strict=True)}) == 1


def test_a_list_of_attributes_serves_several_inputs(sources: Path) -> None:
    for group in drawn(attributes, sources):
        assert len({example.judge.version for example in group}) == 1
        assert len({str(example.sample) for example in group}) > 1


@pytest.mark.parametrize("stream", STREAMS)
def test_a_seed_gives_the_same_examples(stream: Stream, sources: Path) -> None:
    def texts(seed: int) -> list[Any]:
        groups = islice(stream(sources, "train", random.Random(seed)), 5)
        return [list(rows(example, "row", random.Random(0))) for group in groups for example in group]

    assert texts(1) == texts(1) != texts(2)


def test_the_human_summary_has_the_highest_scores(sources: Path) -> None:
    seen = 0
    for group in drawn(summaries, sources):
        for example in group:
            if example.kind == "summary.human":
                seen += 1
                assert example.answers[0] is not None
                for choice in example.answers[0].values():
                    assert not isinstance(choice, Choice) or choice.value >= 0.95 * choice.legal[-1]
    assert seen > 50


def test_a_correct_answer_is_scored_above_a_wrong_one(sources: Path) -> None:
    values: dict[str, list[tuple[Any, Any]]] = {"rubric.right": [], "rubric.wrong": []}
    for group in drawn(rubrics, sources, seeds=80):
        for example in group:
            if example.kind in values and example.answers[0] is not None:
                choice = next(value for value in example.answers[0].values() if isinstance(value, Choice))
                values[example.kind].append((choice.value, choice.legal))
    assert len(values["rubric.right"]) > 10
    assert all(value == legal[-1] for value, legal in values["rubric.right"])
    assert all(value == legal[0] for value, legal in values["rubric.wrong"])


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_kept_or_lost_as_it_says(form: Callable[..., Any]) -> None:
    body = "Ann buys a red car on Friday, and Ben helps her to drive it home in the rain."
    for seed in range(20):
        asked, keep, lose = form(random.Random(seed), body)
        assert keep(body)[1], asked
        assert not lose(body)[1], asked


def test_kindred_subjects_are_nearer_than_strange_ones() -> None:
    pairs = [
        ("anatomy", "anatomy"),
        ("college physics", "high school physics"),
        ("anatomy", "virology"),
        ("anatomy", "marketing"),
    ]
    assert [kinship(*pair) for pair in pairs] == [5, 4, 3, 1]
    assert [closeness("anatomy", family) for family in ("medicine", "chemistry", "law")] == [5, 2, 1]


def test_no_program_is_in_both_splits(sources: Path) -> None:
    train, held_out = (read_programs(sources, split) for split in ("train", "held-out"))
    assert (len(train), len(held_out)) == (35, 5)


def test_a_quality_keeps_its_place_on_any_scale() -> None:
    rng = random.Random(0)
    assert [on_scale(quality, range(6), rng) for quality in (0.0, 0.5, 1.0)] == [0, 3, 5]
    assert [on_scale(quality, range(1, 6), rng) for quality in (0.0, 0.5, 1.0)] == [1, 3, 5]
    assert all(on_scale(0.5, range(101), rng) in (45, 50, 55) for _ in range(20))
