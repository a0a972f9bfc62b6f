"""GPTScore on a real model: means of log-probabilities, by instruction, and their place in a study."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evals.data.published_ratings import DIALSUMMEVAL_QUALITIES, USR_QUALITIES, Rated, RatedSet
from evals.meta.people.gpt_score import Likelihoods, gpt_scores, instruction, parts
from evals.meta.people.study import Options, study
from judges.engines.engine import Engine

QUALITIES = ("Overall", "Engaging")


def rated(place: int, **sample: Any) -> Rated:
    ratings = {quality: [float((place * step) % 5), 3.0] for step, quality in enumerate(QUALITIES, start=1)}
    return Rated(id=f"s{place}", sample=sample, ratings=ratings, set="mine", item=str(place))


SAMPLES = [
    *(
        rated(place, context=["How are you?"], response=f"Fine, and {'very ' * (place % 4)}well at {place}.")
        for place in range(12)
    ),
    rated(12, context=["How are you?"], response=" \n"),
    rated(13, context="word " * 20_000, response="Well."),
    rated(14, response="Well."),
]


@pytest.fixture(scope="module")
def found(loop: asyncio.Runner, transformers_engine: Engine) -> Likelihoods:
    return loop.run(gpt_scores(transformers_engine, SAMPLES, QUALITIES, "tiny"))


def test_the_response_follows_the_instruction_and_the_context() -> None:
    sample = {"context": ["Hello!", "Hi."], "response": " How are you? \n"}
    assert parts(sample, None) == ("Hello!\nHi.\nResponse:", " How are you?")
    before, text = parts(sample, "Engaging")
    assert (before, text) == (f"{instruction('Engaging')}\n\nHello!\nHi.\nResponse:", " How are you?")
    assert instruction("wit") == "Continue the conversation with a response that is good in this respect: wit."


def test_a_score_is_the_mean_log_probability_of_the_responses_tokens(
    loop: asyncio.Runner, transformers_engine: Engine, found: Likelihoods
) -> None:
    plain, each = found.rows["GPTScore, tiny"], found.rows["GPTScore, tiny, by quality"]
    for place in (0, 7):
        for quality, values in each.items():
            told = loop.run(transformers_engine.likelihood(*parts(SAMPLES[place].sample, quality)))
            assert values[place] == pytest.approx(sum(told) / len(told), abs=1e-5)
        bare = loop.run(transformers_engine.likelihood(*parts(SAMPLES[place].sample, None)))
        assert [plain[quality][place] for quality in QUALITIES] == pytest.approx([sum(bare) / len(bare)] * 2, abs=1e-5)
    assert not np.allclose(each["Overall"][:12], each["Engaging"][:12]), "each quality has an instruction of its own"


def test_samples_without_a_score_say_why(found: Likelihoods) -> None:
    assert all(math.isnan(values[place]) for row in found.rows.values() for values in row.values() for place in (12, 13, 14))
    faults = {one.ids[0]: (one.count, one.what) for one in found.faults}
    assert faults["s12"] == (1, "GPTScore: field `response` is empty"), (
        "a sample is counted once, however many qualities there are"
    )
    assert faults["s14"] == (1, "GPTScore: field `context` is missing")
    assert faults["s13"][1].startswith("GPTScore: context overflow: ")


def test_each_quality_is_set_against_its_own_instruction(found: Likelihoods) -> None:
    (group,) = study(RatedSet("mine", SAMPLES, QUALITIES), None, Options(rounds=20, likelihoods=found)).groups
    assert [(line.name, line.kind) for line in group.lines[1:]] == [(name, "baseline") for name in found.rows]
    for line in group.lines[1:]:
        for quality in QUALITIES:
            people = [np.mean(np.array(one.ratings[quality], float)) for one in SAMPLES[:12]]
            wanted = stats.spearmanr(found.rows[line.name][quality][:12], people).statistic
            assert line.qualities[quality]["spearman"].value == pytest.approx(wanted, abs=1e-12)
            assert line.qualities[quality]["spearman"].pairs == 12


def test_every_quality_of_a_known_file_has_words_of_its_own() -> None:
    known = (*USR_QUALITIES, "Quality", *DIALSUMMEVAL_QUALITIES)
    assert len({instruction(name) for name in known}) == len(known)
    assert not [name for name in known if "in this respect" in instruction(name)]
