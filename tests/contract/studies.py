"""Commands that make a report, each on a few rows of its own. Where a judge is asked, a server stands in for it."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import openpyxl

from evals.meta.grounded.cases import read_cases
from judges.grouse import GRADES, METRICS
from judges.verdict import Verdict
from tests.judges.engines.test_endpoint import Fake, Reply, chat

OUT = "out"
"""Where each report goes."""

WORDS = ("clear", "short", "on the point", "vague", "polite", "wrong")
RATERS = ("ann", "ben", "cyd")
ROUNDS = ("--rounds", "50")
SAMPLE = Path(__file__).parents[2] / "magistrate" / "sample"

Make = Callable[[str], list[str]]
"""Writes a study's input into the folder, and returns the command; it is given the address of a server."""


class Scripted(Fake):
    """A server that keeps a schema. What it answers hangs on the prompt alone."""

    def __init__(self) -> None:
        super().__init__("response_format")

    def reply(self, path: str, body: dict[str, Any] | None) -> Reply:
        if body is None:
            return super().reply(path, body)
        probed = "Say hello" in body["messages"][0]["content"]
        status, headers, content = super().reply(path, body) if probed else chat(answer(body))
        choice = content["choices"][0]
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [token(one) for one in choice["message"]["content"]]}
        return status, headers, content


def answer(body: Mapping[str, Any]) -> str:
    asked = json.dumps([body["messages"], body.get("seed")]).encode()
    return json.dumps(keeping(body["response_format"]["json_schema"]["schema"], zlib.crc32(asked)))


def token(character: str) -> dict[str, Any]:
    """A token of one character: of a digit, or how a choice begins, others of its kind are less likely."""
    kind = next((kind for kind in ("012345", "ABbn") if character in kind), character)
    likely = 0.7 if len(kind) > 1 else 1.0
    others = [{"token": one, "logprob": math.log((1 - likely) / (len(kind) - 1))} for one in kind if one != character]
    return {"token": character, "top_logprobs": [{"token": character, "logprob": math.log(likely)}, *others]}


def keeping(schema: Mapping[str, Any], chance: int, defs: Mapping[str, Any] | None = None) -> Any:
    """A value that keeps a JSON schema, drawn by a number."""
    defs = schema.get("$defs", defs or {})
    if "$ref" in schema:
        return keeping(defs[schema["$ref"].rpartition("/")[2]], chance, defs)
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum") or schema.get("anyOf")
    if choices:
        chosen = choices[chance % len(choices)]
        return chosen if "enum" in schema else keeping(chosen, chance // 7, defs)
    if schema.get("type") == "object":
        named = schema["properties"].items()
        return {name: keeping(part, zlib.crc32(f"{chance} {name}".encode()), defs) for name, part in named}
    if schema.get("type") == "array":
        items = range(schema.get("minItems", 2))
        return [keeping(schema["items"], zlib.crc32(f"{chance} {item}".encode()), defs) for item in items]
    if schema.get("type") == "null":
        return None
    assert schema.get("type") == "string", schema
    return f"It is {WORDS[chance % len(WORDS)]}."


def lines(name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as JSON lines, and return the file's name."""
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as CSV, and return the file's name."""
    Path(name).write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\n")
    return name


def verdicts(name: str, scores: Mapping[str, Mapping[str, Any] | None], judge: str = "rubric") -> str:
    """Write a judge's verdicts, ids to scores, and return the file's name."""
    made = [
        Verdict(
            id=key,
            judge=judge,
            status="unscored" if one is None else "scored",
            reason="the answer is no JSON" if one is None else None,
            scores=one,
            sample="s",
            fingerprint="f",
        )
        for key, one in scores.items()
    ]
    Path(name).write_text("".join(one.to_json() + "\n" for one in made))
    return name


def graded(count: int, step: int = 7) -> dict[str, dict[str, Any] | None]:
    """Scores from 1 to 5 of samples ``s0`` and so on; the last one has none."""
    return {f"s{n}": {"good": 1 + (n * step + n // 5) % 5} if n < count - 1 else None for n in range(count)}


def rated(count: int) -> list[dict[str, Any]]:
    """What three raters say of the same samples: often what the scores say."""
    return [
        {"id": f"s{n}", **{name: 1 + (7 * n + n // 5 + (n + place) % (3 + place) // 2) % 5 for place, name in enumerate(RATERS)}}
        for n in range(count)
    ]


def compare(_: str) -> list[str]:
    first, second = verdicts("new.jsonl", graded(40)), verdicts("old.jsonl", graded(40, 3))
    return ["meta", "compare", first, second, "-o", OUT]


def audit(_: str) -> list[str]:
    human = table("labels.csv", [{"id": row["id"], "good": row["ann"]} for row in rated(30)])
    listed = ("--scale", "1,2,3,4,5", "--most", "5", "--random", "3")
    return ["meta", "audit", verdicts("new.jsonl", graded(40)), "--human", human, *listed, "-o", OUT]


def replace(_: str) -> list[str]:
    asked = ("--human", table("raters.csv", rated(40)), "--rater", ",".join(RATERS), "--annotators", "crowd")
    return ["meta", "replace", verdicts("new.jsonl", graded(41)), *asked, "-o", OUT]


def estimate(_: str) -> list[str]:
    human = table("labels.csv", [{"id": row["id"], "good": row["ann"]} for row in rated(30)])
    return ["estimate", verdicts("new.jsonl", graded(60)), "--human", human, "--pass-at", "4", "-o", f"{OUT}/corrected.json"]


def grouse(_: str) -> list[str]:
    cases = read_cases(limit=6).cases
    legal = {metric: (None, 5, 1, 3) if metric in GRADES else (None, 1, 0) for metric in METRICS}
    scores: dict[str, dict[str, Any] | None] = {
        case.id: {
            metric: next(score for score in legal[metric] if case.conditions[metric].holds(score) != (n % 7 == place))
            for place, metric in enumerate(METRICS)
        }
        for n, case in enumerate(cases[:-1])
    }
    grades = [{"id": case.id, **dict.fromkeys(METRICS, 1 + 4 * (n % 2))} for n, case in enumerate(cases)]
    given = ("--verdicts", verdicts("v.jsonl", scores, "grouse"), "--reference", table("reference.csv", grades))
    return ["meta", "grouse", "--limit", str(len(cases)), *given, "-o", OUT]


def people(_: str) -> list[str]:
    rows = [
        {
            "id": f"s{n}",
            "said": "How are you?",
            "reply": f"Fine, and {'very ' * (n % 4)}well.",
            "reference": f"I am {'very ' * (n % 3)}well, thanks.",
            "doc": n // 3,
            "anna": n % 5 + 1,
            "bob": (n + n % 2) % 5 + 1,
        }
        for n in range(36)
    ]
    source = lines("rated.jsonl", rows)
    judged = verdicts("v.jsonl", {f"s{n}": {"content": n % 5, "grammar": n % 3} for n in range(36)}, "llm-eval")
    columns = ("--human", "quality=anna,bob", "--field", "context=said", "--field", "response=reply", "--item", "doc")
    return ["meta", "people", source, *columns, "--verdicts", judged, *ROUNDS, "-o", OUT]


def preferences(_: str) -> list[str]:
    rows = [
        {"id": f"p{n}", "question": f"q{n}?", "answer_a": "a " * (n % 4 + 1), "answer_b": "b", "x": n % 3, "y": (n + n // 8) % 3}
        for n in range(24)
    ]
    chosen = {f"p{n}": {"preference": ("A", "B", "tie")[(n + n // 5) % 3], "orders_agree": n % 4 and 1} for n in range(24)}
    columns = ("--human", "x,y", "--labels", "first=0,second=1,tie=2")
    judged = verdicts("v.jsonl", chosen, "pairwise")
    return ["meta", "preferences", lines("rows.jsonl", rows), *columns, "--verdicts", judged, *ROUNDS, "-o", OUT]


def benchmark(_: str) -> list[str]:
    groups = ("post_summarization", "math_reasoning", "code_generation", "chitchat", "ranking")
    rows = [
        {"scenario": groups[n % 5], "label": n % 3, "prompt": f"q{n}?", "response 1": "a", "response 2": "b"} for n in range(60)
    ]
    words = ("A", "B", "tie")
    chosen: dict[str, dict[str, Any] | None] = {
        f"auto-j-{n + 1}": {"preference": words[(n + n // 7) % 3], "orders_agree": 1} if n % 20 else None for n in range(60)
    }
    judged = verdicts("v.jsonl", chosen, "pairwise")
    return ["meta", "benchmark", "autoj", lines("rows.jsonl", rows), "--verdicts", judged, *ROUNDS, "-o", OUT]


def arena(_: str) -> list[str]:
    models = ("one", "two", "three")
    rows = [
        {
            "question_id": f"q{n}",
            "model_a": first,
            "model_b": second,
            "winner": ("model_a", "model_a", "tie", "model_b", "tie (bothbad)")[(3 * n + place) % 5],
            "language": ("English", "Chinese")[n % 2],
            "judge": "judge-13b",
        }
        for n in range(8)
        for place, (first, second) in enumerate(combinations(models, 2))
    ]
    given = ("--baseline", "one", "--anchor", "two=900", "--bootstrap", "20")
    return ["arena", "report", lines("battles.jsonl", rows), *given, "-o", OUT]


def arena_run(url: str) -> list[str]:
    book = openpyxl.Workbook()
    for row in [("question", "index", "capability"), *((f"Why {n}?", f"q{n}", ("facts", "lists")[n % 2]) for n in range(4))]:
        book.active.append(row)
    book.save("questions.xlsx")
    files = [
        lines(f"{model}.jsonl", [{"index": f"q{n}", "answer": f"{model}: {'so ' * place}{n}"} for n in range(4)])
        for place, model in enumerate(("one", "two", "three"))
    ]
    answers = [part for file in files for part in ("--answers", file)]
    return ["arena", "run", "--questions", "questions.xlsx", *answers, *asked(url), "--expected", "--bootstrap", "20", "-o", OUT]


def asked(url: str) -> tuple[str, ...]:
    return ("--engine", "endpoint", "--base-url", url, "--model", "judge")


def card(url: str) -> list[str]:
    human = table("labels.csv", [{"id": f"d{n:02}", "content": n % 6} for n in range(1, 13)])
    few = ("-O", "metrics=content,grammar", "--limit", "12", "--reruns", "1", "--seeds", "2", "--human", human)
    return ["judges", "card", "--judge", "llm-eval", *asked(url), *few, "-o", OUT]


def card_of_pairs(url: str) -> list[str]:
    few = ("-O", "reasoning=no", "--limit", "12", "--reruns", "1", "--seeds", "2")
    return ["judges", "card", "--judge", "pairwise", *asked(url), *few, "-o", OUT]


def jury(url: str) -> list[str]:
    member = f'[[member]]\njudge = "llm-eval"\nmodel = "judge"\nengine = "endpoint"\nbase_url = "{url}"\n'
    blind = 'name = "blind"\noptions = { use_reference = false }\nweight = 2\n'
    Path("jury.toml").write_text(f'combine = "median"\n{member}name = "plain"\n{member}{blind}')
    rows = [{"id": f"r{n}", "context": f"Why {n}?", "response": f"So {n}.", "reference": "No."} for n in range(8)]
    source = lines("rows.jsonl", [*rows, {"id": "bad", "context": "hi"}])
    return ["jury", source, "--members", "jury.toml", "-o", f"{OUT}/verdicts.jsonl"]


def qualeval(url: str) -> list[str]:
    kinds = {"domain": ["Billing", "Delivery", "Returns"], "subtask": ["Name the wish", "Name the object"]}
    Path("attributes.json").write_text(json.dumps(kinds))
    source = ("--config", str(SAMPLE / "helpdesk.toml"), "--data", str(SAMPLE / "helpdesk.jsonl"), "--limit", "6")
    answers = ("--predictions", f"first-sentence={SAMPLE / 'helpdesk.answers.jsonl'}", "--attributes", "attributes.json")
    return ["qualeval", "run", *source, *answers, *asked(url), "-o", OUT]


STUDIES: Mapping[str, Make] = {
    "arena-report": arena,
    "arena-run": arena_run,
    "estimate": estimate,
    "judges-card": card,
    "judges-card-pairwise": card_of_pairs,
    "jury": jury,
    "meta-audit": audit,
    "meta-benchmark": benchmark,
    "meta-compare": compare,
    "meta-grouse": grouse,
    "meta-people": people,
    "meta-preferences": preferences,
    "meta-replace": replace,
    "qualeval": qualeval,
}
