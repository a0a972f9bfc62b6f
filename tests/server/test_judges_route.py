from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from judges.catalog import JUDGES
from server.errors import install_error_handlers
from server.judge_spec import JudgeSpec, judge_of
from server.routes import judges


@pytest.fixture(scope="module")
def app() -> FastAPI:
    app = FastAPI()
    app.include_router(judges.router)
    install_error_handlers(app)
    return app


def get(app: FastAPI, path: str) -> httpx.Response:
    async def call() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
            return await client.get(path)

    return asyncio.run(call())


@pytest.fixture(scope="module")
def cards(app: FastAPI) -> dict[str, dict[str, Any]]:
    answer = get(app, "/v1/judges")
    assert answer.status_code == 200
    assert answer.json()["object"] == "list"
    return {card["name"]: card for card in answer.json()["data"]}


def test_every_judge_is_listed_and_described(app: FastAPI, cards: dict[str, dict[str, Any]]) -> None:
    assert list(cards) == [*JUDGES, "rubric"]
    for name, card in cards.items():
        assert get(app, f"/v1/judges/{name}").json() == card
        assert card["asks"]
        assert card["needs"]
    assert cards["affinity"]["required"] == ["attributes"]
    assert cards["llm-eval"]["metrics"] == dict.fromkeys(("content", "grammar", "relevance", "appropriateness"), "interval")


@pytest.mark.parametrize("name", [*JUDGES, "rubric"])
def test_every_example_works_as_it_stands(cards: dict[str, dict[str, Any]], name: str) -> None:
    card = cards[name]
    body = dict(card["request"])
    assert body.pop("model")
    (sample,) = body.pop("samples")
    assert sample == card["sample"]
    judge = judge_of(JudgeSpec.model_validate(body))
    rendered = judge.render(sample)
    assert rendered.notes == ()
    for prompt in rendered.prompts:
        assert prompt.form.schema == card["answer"]
    assert list(judge.levels) == list(card["metrics"])
    shown = "".join(message.content for prompt in rendered.prompts for message in prompt.messages)
    for value in sample.values():
        assert all(text in shown for text in (value if isinstance(value, list | dict) else [value]))


@pytest.mark.parametrize("name", [*JUDGES, "rubric"])
def test_every_option_is_told_with_values_that_it_takes(cards: dict[str, dict[str, Any]], name: str) -> None:
    card = cards[name]
    body = {key: value for key, value in card["request"].items() if key not in ("model", "samples")}
    for option in card["options"]:
        given = body.get("options", {}) | ({"per_metric": True} if option["name"] == "prompts" else {})  # it acts on these alone
        version = judge_of(JudgeSpec.model_validate(body | {"options": given})).version
        legal = option["legal"]
        of_type = {"boolean": [True, False], "integer": [1, legal.get("maximum")], "number": [2.5], "string": ["one"]}
        values = legal.get("enum") or of_type.get(legal.get("type"), [["one", "two"]])
        asked = [JudgeSpec.model_validate(body | {"options": given | {option["name"]: value}}) for value in values]
        assert {judge_of(request).version for request in asked} != {version}, "an option changes what is asked"
        if option["default"] is not None:
            usual = body | {"options": {key: value for key, value in given.items() if key != option["name"]}}
            same = body | {"options": given | {option["name"]: option["default"]}}
            assert judge_of(JudgeSpec.model_validate(usual)).version == judge_of(JudgeSpec.model_validate(same)).version
        assert option["required"] == (option["name"] in card["required"])


@pytest.mark.parametrize("name", ["dredd", "..%2F..%2Fetc%2Fpasswd", "mine.toml", "%00", "x" * 5000])
def test_a_judge_that_is_not_there_is_not_found(app: FastAPI, name: str) -> None:
    answer = get(app, f"/v1/judges/{name}")
    assert answer.status_code == 404
    assert len(answer.content) < 2000
    if name == "dredd":
        assert answer.json()["error"]["message"] == f"there is no judge `dredd`; there are {', '.join(JUDGES)} and rubric"
        assert answer.json()["error"]["code"] == "judge_not_found"


def test_the_pages_schema_is_whole(app: FastAPI) -> None:
    schema = get(app, "/openapi.json").json()
    card = schema["components"]["schemas"]["JudgeCard"]["properties"]
    assert set(card) == {
        "object",
        "name",
        "asks",
        "needs",
        "source",
        "options",
        "required",
        "metrics",
        "answer",
        "sample",
        "request",
    }
    assert all("description" in about for name, about in card.items() if name != "object")
