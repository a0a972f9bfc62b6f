"""Reports far from the usual: hostile names, no figures, very many attributes and models, no models at all."""

from __future__ import annotations

from typing import Any

import numpy as np

HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
SPOILED = "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\0\x1b[31m\ud800"
NAMES = [
    HOSTILE,
    "x" * 500,
    "long words in a long name " * 19,
    '"; alert(1); //',
    "`code` | **bold** | [link](https://example.com) | <b>",
    "{{ 7 * 7 }} {% raw %} ${7 * 7} datum.value",
    "👩‍🚀 宇宙飛行士 🚀 שלום",
    SPOILED,
    "0|1|2",
    "constructor",
]


def interval(value: float | None, instances: int = 40, half: float = 0.05) -> dict[str, Any]:
    if value is None or instances < 2:
        return {"value": value, "low": None, "high": None, "instances": instances if value is not None else 0}
    return {"value": round(value, 4), "low": round(value - half, 4), "high": round(value + half, 4), "instances": instances}


def empty(title: str = "Empty", instances: int = 1) -> dict[str, Any]:
    """A study without models: what the data consists of, and nothing else."""
    return {
        "title": title,
        "task": "task",
        "instruction": "Answer.",
        "made": {},
        "counts": {"instances": instances, "unscored": [], "faults": []},
        "metric": {"name": "accuracy", "title": "Accuracy", "scale": [0, 1]},
        "models": [],
        "kinds": {kind: kind_of(kind, [f"the one {kind}"], [], instances) for kind in ("domain", "subtask")},
        "samples": [],
        "insights": [],
        "faithfulness": None,
        "label_priors": None,
    }


def kind_of(kind: str, names: list[str], models: list[str], instances: int, seed: int = 0) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    priors = chance.dirichlet(np.full(len(names), 3.0))
    counts = np.maximum(1, np.rint(2 * instances * priors).astype(int))
    attributes = []
    for place, name in enumerate(names):
        count = int(counts[place])
        one: dict[str, Any] = {
            "name": name,
            "prior": round(float(priors[place]), 4),
            "instances": count,
            "lower": count,
            "upper": count,
            "price": 0.0,
            "mean_affinity": 2.5,
            "mentions": 3,
            "spellings": [name],
            "proficiency": {model: interval(float(chance.uniform(0.2, 0.9)), count) for model in models},
        }
        if kind == "subtask":
            one["calibration"] = {}
            for model in models:
                found = interval(float(chance.uniform(0.05, 0.6)), instances)
                one["calibration"][model] = {
                    "distance": found.pop("value"),
                    **found,
                    "correlation": round(float(chance.uniform(-0.2, 0.9)), 4),
                }
        attributes.append(one)
    rated = ["input"] if kind == "domain" else ["truth", *models]
    together = np.triu(chance.integers(0, 4, (len(names), len(names))))
    return {
        "attributes": attributes,
        "assignment": {"objective": 10.0, "bound": 10.0, "optimal": True, "ties": 0, "k": 2, "slack": 0.1, "rows": instances},
        "discovery": {"frozen": True, "prompts": {}, "turns": [], "dropped": []},
        "affinity_shares": {of: [[round(float(x), 4) for x in chance.dirichlet(np.ones(5))] for _ in names] for of in rated},
        "together": (together + together.T).tolist(),
    }


def hostile() -> dict[str, Any]:
    """One instance, and names that would like to be something else; figures that are not there."""
    models = [HOSTILE, "m" * 300]
    report = empty(HOSTILE)
    report["instruction"] = HOSTILE
    report["metric"]["title"] = "</script> <b>"
    report["models"] = [{"name": models[0], "overall": interval(0.5, 1)}, {"name": models[1], "overall": interval(None)}]
    report["kinds"] = {kind: kind_of(kind, NAMES, models, 1) for kind in ("domain", "subtask")}
    for kind in report["kinds"].values():
        kind["attributes"][3]["proficiency"][models[0]] = interval(None)
        kind["attributes"][4]["proficiency"] = {model: interval(None) for model in models}
        kind["attributes"][5]["proficiency"][models[1]] = interval(0.4, 1)
    gone = {"distance": None, "low": None, "high": None, "instances": 0, "correlation": None}
    report["kinds"]["subtask"]["attributes"][6]["calibration"] = {model: dict(gone) for model in models}
    report["kinds"]["subtask"]["attributes"][7]["calibration"] = {}
    report["made"] = {
        "judge_model": HOSTILE,
        "engine": HOSTILE,
        "versions": {HOSTILE: SPOILED},
        "date": HOSTILE,
        "options": {HOSTILE: HOSTILE},
    }
    report["counts"]["faults"] = [{"what": HOSTILE, "model": models[0], "count": 12, "ids": [HOSTILE, SPOILED]}]
    report["counts"]["unscored"] = [{"of": "truth", "reason": HOSTILE, "count": 1}]
    report["counts"]["notes"] = [{"model": models[0], "note": HOSTILE, "count": 3}]
    report["samples"] = [
        {
            "id": SPOILED,
            "model": model,
            "kind": "subtask",
            "attribute": name,
            "truth_score": 4.37,
            "generation_score": 1.0,
            "input": f"{HOSTILE}\n{SPOILED}" + "w" * 1900,
            "truth": HOSTILE,
            "generation": "",
            "truth_evidence": None,
            "generation_evidence": HOSTILE,
            "value": None,
        }
        for model in models
        for name in NAMES[:3]
    ]
    report["extremes"] = [
        {"kind": "domain", "attribute": name, "model": model, "end": "lowest", "id": SPOILED, "value": 0.5, "generation": HOSTILE}
        for model in models
        for name in NAMES
    ]
    told = {"text": f"{HOSTILE} reaches 12%.", "checked": [{"number": "12%", "where": HOSTILE}], "flag": HOSTILE}
    report["insights"] = [
        {"model": models[0], "kind": "domain", "sentences": [told], "reason": None},
        {"model": models[1], "kind": "domain", "sentences": [], "reason": HOSTILE},
        {"model": models[1], "kind": "all", "sentences": [told], "reason": None},
    ]
    return report


def many(attributes: int = 120, models: int = 8) -> dict[str, Any]:
    """As many attributes as can be assigned, and as many models as there are colours."""
    names = [f"model-{number}-instruct" for number in range(1, models + 1)]
    report = empty("Everything at once", 4_000)
    report["models"] = [{"name": name, "overall": interval(0.5 + 0.03 * place, 4_000, 0.01)} for place, name in enumerate(names)]
    for kind in ("domain", "subtask"):
        labels = [f"{kind} number {number}, of some length" for number in range(1, attributes + 1)]
        report["kinds"][kind] = kind_of(kind, labels, names, 4_000)
    return report
