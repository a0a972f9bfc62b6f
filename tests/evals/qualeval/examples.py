"""A report to show: as a study of DialogSum makes it, by the study's own stages, on made-up affinities and answers."""

from __future__ import annotations

import asyncio
import copy
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.data.tasks import Dataset, Fault, Instance, Predictions, Task
from evals.metrics.metric import Measured, Pair
from evals.qualeval.affinities import Affinities
from evals.qualeval.attributes import Attribute, AttributeList
from evals.qualeval.breakdown import Assigned, Calibration, Proficiency, assign, calibrate, figures, measure
from evals.qualeval.faithfulness import faithfulness
from evals.qualeval.figures import Parts, report
from evals.qualeval.insights import Insights, Tables, check
from evals.qualeval.label_priors import label_priors
from evals.qualeval.options import Options
from evals.qualeval.samples import telling
from judges.qualeval import Kind

DOMAINS = {
    "Career and job interviews": 3.0,
    "Employment and professional skills": 2.8,
    "Food and restaurant ordering": 1.7,
    "Travel and transport": 2.2,
    "Shopping and prices": 1.9,
    "Health and medical advice": 1.4,
    "Family and relationships": 2.1,
    "School and study": 1.2,
    "Housing and accommodation": 1.1,
    "Films and entertainment": 1.0,
    "Sports and outdoor activities": 0.9,
    "Weather and seasons": 0.5,
    "Money and banking": 0.8,
    "Technology and repairs": 0.7,
    "Invitations and plans with friends": 1.6,
}
SUBTASKS = {
    "Identify the participants": 3.2,
    "Recognise the main topic": 3.4,
    "State the decision that is reached": 2.2,
    "Keep the roles of the speakers apart": 2.0,
    "Capture a request": 1.6,
    "Capture an offer, or why it is refused": 1.2,
    "Report feelings": 1.3,
    "Note times and places": 1.4,
    "Note numbers and prices": 0.9,
    "Explain reasons": 1.5,
    "Follow the order of turns": 1.0,
    "Leave out small talk": 1.1,
    "Keep to three sentences": 1.8,
    "Say it in other words": 1.7,
    "Resolve pronouns": 0.8,
}
WEAK = {
    "davinci-3": ("Money and banking", "Health and medical advice"),
    "curie": ("Technology and repairs", "Housing and accommodation"),
}
MODELS = {"davinci-3": 0.33, "curie": 0.26}
"""Each model's usual ROUGE-L."""

OPENINGS = [
    ("Good morning, I have come about the position in your office.", "the position in the office"),
    ("I would like to return this coat. The lining came apart in a week.", "a coat whose lining came apart"),
    ("I have had a pain in my chest since Sunday.", "a pain in the chest"),
    ("Could you tell me which platform the train to Leeds leaves from?", "the train to Leeds"),
    ("We were wondering whether the flat on the second floor is still free.", "the flat on the second floor"),
    ("Are you coming to the match on Saturday? We are two players short.", "the match on Saturday"),
    ("The screen stays black whatever I press.", "a screen that stays black"),
    ("I would like to open an account and pay in 250 pounds.", "an account with 250 pounds"),
]
MIDDLES = [
    "How long have you had it in mind? Two days, or more like a week?",
    "I see. Do you have the receipt with you, or a card?",
    "Let me have a look. It may take until half past four.",
    "To be honest I was not sure that you would ask me at all.",
    "It would be 35 pounds, and 5 more if it has to be done today.",
]
CLOSINGS = [
    "All right, then I will come back on Thursday at nine.",
    "No, thank you, that is more than I can spend this month.",
    "That is kind of you. I will tell my sister to call you.",
    "Good. Then let us meet in front of the station.",
]
JUDGE = "Qwen/Qwen3-8B"


class Known:
    """A metric whose values are known beforehand."""

    name = "rouge-l"
    title = "ROUGE-L"
    scale = (0.0, 1.0)

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = values

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "package": "rouge-score 0.1.2", "stemmer": True}

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        return [Measured(self.values[one.id]) if one.id in self.values else Measured(None, "no words") for one in pairs]


def _dialogue(chance: np.random.Generator) -> tuple[str, str, str]:
    """A conversation, its summary and a worse one."""
    opening, topic = OPENINGS[chance.integers(len(OPENINGS))]
    middles = chance.integers(len(MIDDLES), size=int(chance.integers(2, 9)))
    turns = [opening, *(MIDDLES[place] for place in middles), CLOSINGS[chance.integers(len(CLOSINGS))]]
    text = "\n".join(f"#Person{1 + number % 2}#: {turn}" for number, turn in enumerate(turns))
    truth = f"#Person1# talks to #Person2# about {topic}. They agree on how to go on."
    answer = f"Two people are talking about {topic}. One of them asks several questions, and the other one answers them."
    return text, truth, answer


def _scores(chance: np.random.Generator, weights: Mapping[str, float], rows: int) -> NDArray[np.float32]:
    """Affinities from 1 to 5, higher where an attribute is common."""
    shares = np.array([*weights.values()])
    lean = chance.normal(0, 0.9, (rows, len(shares))) + 1.2 * np.log(shares)[None, :] + 2.0
    scores: NDArray[np.float32] = np.clip(np.rint(lean), 1, 5).astype(np.float32)
    return scores


def _affinities(of: str, scores: NDArray[np.float32], names: list[str], unscored: Mapping[str, int]) -> Affinities:
    def evidence(wanted: set[int]) -> dict[int, Mapping[str, str | None]]:
        said = {
            5: "It says so in as many words: “{}”.",
            4: "Most of it is about this.",
            2: "Only in passing.",
            1: "Nothing of it.",
        }
        return {
            row: {name: said.get(int(scores[row, number]), "In part.").format(name.lower()) for number, name in enumerate(names)}
            for row in wanted
        }

    return Affinities(of, scores, scores, unscored, evidence)


def _found(kind: Kind, weights: Mapping[str, float]) -> AttributeList:
    attributes = [
        Attribute(name, int(20 * weight), {name: int(16 * weight), name.title(): int(4 * weight)}, 1)
        for name, weight in weights.items()
    ]
    found = AttributeList(kind, attributes)
    found.prompts.update({"named something": 98, "the answer is no JSON: it ends in the middle": 2})
    found.turns.append((61, 15))
    found.dropped.extend([("Small talk", 9), ("Customer service", 7), ("Pets & animals", 4), ("Law", 1)])
    return found


def _insights(model: str, kind: Kind, one: Assigned, proficiency: Proficiency, calibration: Calibration) -> Insights:
    names = one.found.names
    assert one.assignment.priors is not None
    priors, values = figures(one.assignment.priors, names), figures(proficiency.by_kind[kind].mean, names)
    counts = {name: int(count) for name, count in zip(names, one.assignment.counts, strict=True)}
    distances = figures(calibration.distance.mean, names) if kind == "subtask" else {}
    tables = Tables(model, kind, priors, values, distances, counts)
    common, weakest = max(priors, key=lambda name: priors[name]), min(values, key=lambda name: values[name])
    best = max(values, key=lambda name: values[name])
    said = [
        f"{common} makes up {priors[common]:.1%} of the data, more than any other {kind}, so what is gained there counts most.",
        f"The model has its lowest proficiency in {weakest}, at {values[weakest]:.2f}; more examples of it should come first.",
        f"It is most proficient in {common}, at 0.71.",
        f"{best} needs no further work.",
    ]
    return Insights(model, kind, [check(text, tables) for text in said])


@cache
def _dialogsum(seed: int, rows: int) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    options = Options(seed=seed, rounds=400, samples=24)
    texts = [_dialogue(chance) for _ in range(rows)]
    instances = [Instance(f"dev_{number}", {}, text, truth, None) for number, (text, truth, _) in enumerate(texts)]
    ids = [instance.id for instance in instances]
    domains, subtasks = _found("domain", DOMAINS), _found("subtask", SUBTASKS)
    of_input = _affinities("input", _scores(chance, DOMAINS, rows), domains.names, {})
    of_truth = _affinities("truth", _scores(chance, SUBTASKS, rows), subtasks.names, {"the prompt has 9,120 tokens": 1})
    kinds = [assign(domains, of_input, ids, options), assign(subtasks, of_truth, ids, options)]

    proficiencies, calibrations, samples, insights, predictions, rated = [], [], [], [], [], []
    for number, (model, usual) in enumerate(MODELS.items()):
        noise = np.rint(chance.normal(-0.3 * number, 0.8 + 0.25 * number, of_truth.scores.shape))
        scores = np.clip(of_truth.scores + noise, 1, 5).astype(np.float32)
        generation = _affinities(model, scores, subtasks.names, {})
        weak = np.isin(kinds[0].chosen, [domains.names.index(name) for name in WEAK[model]]).any(axis=1)
        values = np.clip(chance.normal(usual, 0.12, rows) - 0.11 * weak, 0, 1)
        metric = Known({row: float(value) for row, value in zip(ids, values, strict=True) if row != "dev_9"})
        missing = Fault("prediction missing", 1, ["dev_7"], model)
        given = Predictions(model, {row: texts[place][2] for place, row in enumerate(ids) if row != "dev_7"}, [missing])
        proficiency = asyncio.run(measure(metric, instances, given, kinds, options, Path("nothing-is-kept")))
        calibration = calibrate(of_truth, generation, options, proficiency.values)
        proficiencies.append(proficiency)
        calibrations.append(calibration)
        predictions.append(given)
        rated.append(generation)
        samples += telling(instances, kinds[1], generation, given, proficiency, options)[:12]
        insights += [_insights(model, one.kind, one, proficiency, calibration) for one in kinds]
    labelled = [
        Instance(one.id, one.fields, one.input, one.truth, domains.names[int(of_input.scores[place].argmax())])
        for place, one in enumerate(instances)
    ]
    parts = Parts(
        kinds,
        {"domain": [of_input], "subtask": [of_truth, *rated]},
        proficiencies,
        calibrations,
        samples,
        insights,
        faithfulness(kinds[0], labelled, options),
        label_priors=label_priors(kinds[0], labelled, options),
    )
    dataset = Dataset(instances, [Fault("has an empty input", 2, ["dev_31", "dev_77"])])
    return report(Task.load("dialogsum"), dataset, predictions, metric, parts, _made(options))


def _made(options: Options) -> dict[str, Any]:
    stages = ["discover domain", "discover subtask", "rate domain of input", "rate subtask of truth", "insights"]
    return {
        "versions": {"magistrate": "0.1.0", "highspy": "1.15.1", "torch": "2.13.0"},
        "seconds": {"discover": 48.2, "rate": 912.6, "assign": 0.31, "measure": 1.4, "calibrate": 0.2, "insights": 9.8},
        "tokens": {"prompt": 2_812_345, "cached": 2_104_882, "completion": 412_090},
        "fingerprints": {stage: f"{zlib.crc32(stage.encode()):016x}" for stage in stages},
        "asked": {stage: {"now": 100 if stage.startswith("discover") else 500, "before": 0} for stage in stages},
        "judge_model": JUDGE,
        "engine": "vllm 0.32.0",
        "seed": options.seed,
        "date": "2026-11-21",
        "options": options.as_fields(),
        "metric": dict(Known({}).identity()),
    }


def dialogsum(seed: int = 0, rows: int = 500) -> dict[str, Any]:
    """A study of 15 domains, 15 sub-tasks and two models."""
    return copy.deepcopy(_dialogsum(seed, rows))
