"""``magistrate.judge``: any samples, any judge, any engine, in programs and beside a running loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from datasets import Dataset

from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.verdicts import Verdicts
from magistrate import LLMEval, MagistrateError, Rubric, judge, judge_async, open_engine
from magistrate.judging import SETTINGS
from magistrate.loop_thread import run
from tests.tiny import TINY

SAMPLES: list[dict[str, Any]] = [{"id": f"s{n}", "context": f"Is {n} odd?", "response": f"{n} is odd."} for n in range(6)]
RUBRIC = """
name = "kind"
fields = ["response"]
reasoning = false
[[metric]]
name = "kind"
description = 'Is it "kind"? \\d ✓ # no'
scale = ["no", "off", "yes: very", "1"]
ordered = true
[[metric]]
name = "long"
description = "How long it is:\\nin words."
scale = "1-3"
optional = true
levels = { 1 = "short" }
[[example]]
sample = { response = "~" }
scores = { kind = "off" }
"""


def said(verdicts: Verdicts) -> list[tuple[object, ...]]:
    return [(verdict.id, verdict.scores, verdict.reason, verdict.sample, verdict.fingerprint) for verdict in verdicts]


@pytest.fixture
def url(magistrate_server: Any) -> str:
    return str(magistrate_server.url)


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    file = tmp_path / "kind.toml"
    file.write_text(RUBRIC)
    return file


def test_samples_of_any_kind_have_the_same_verdicts(url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    frame = pd.DataFrame(SAMPLES)
    frame.to_csv(file, index=False)
    wanted = said(judge(SAMPLES, "llm-eval", server=url))
    assert [verdict[0] for verdict in wanted] == [sample["id"] for sample in SAMPLES]
    for samples in (frame, pl.DataFrame(SAMPLES), Dataset.from_list(SAMPLES), iter(SAMPLES), file, str(file)):
        assert said(judge(samples, "llm-eval", server=url)) == wanted


def test_a_judge_is_a_name_a_file_or_an_object(url: str, rubric: Path) -> None:
    by_file = judge(SAMPLES, rubric, server=url)
    assert {verdict.judge for verdict in by_file} == {"kind"}
    assert by_file.legal["long"] == (1, 2, 3, None)
    assert said(judge(SAMPLES, str(rubric), server=url)) == said(by_file)
    assert said(judge(SAMPLES, Rubric.load(rubric), server=url)) == said(by_file)
    options: dict[str, Any] = {"metrics": {"brief": "how short it is"}, "scale": "0-100"}
    by_name = judge(SAMPLES, "llm-eval", options=options, server=url)
    assert by_name.metrics == ["brief"]
    assert said(judge(SAMPLES, LLMEval(**options), server=url)) == said(by_name)
    assert judge(SAMPLES[:1], server=url)[0].judge == "llm-eval"


def test_settings_columns_and_numbers_of_rows(url: str) -> None:
    frame = pd.DataFrame(SAMPLES).rename(columns={"response": "reply"})
    calls: list[tuple[int, int | None]] = []
    verdicts = judge(
        frame,
        "llm-eval",
        model="magistrate-tiny",
        server=url,
        expected=True,
        fields={"response": "reply"},
        limit=4,
        progress=lambda done, total: calls.append((done, total)),
    )
    table = verdicts.to_pandas()
    assert list(table["id"]) == ["s0", "s1", "s2", "s3"]
    assert table["expected_content"].between(0, 5).all()
    assert calls == [(number, 4) for number in range(1, 5)]
    through_its_api = judge(SAMPLES[:1], "llm-eval", "endpoint", base_url=f"{url}/v1", model="magistrate-tiny")
    assert through_its_api[0].scores == verdicts[0].scores


def test_rows_that_cannot_be_judged_stand_in_their_places(url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"context": "a", "response": "b"}\n{broken\n{"context": "a"}\n')
    verdicts = judge(file, server=url)
    assert [verdict.status for verdict in verdicts] == ["scored", "unscored", "unscored"]
    assert (verdicts[1].reason or "").startswith("rows.jsonl row 2: is not JSON")
    assert verdicts[2].reason == "rows.jsonl row 3: field `response` is missing"
    assert judge([], "llm-eval", server=url) == []


def test_rows_of_one_id_are_warned_of(url: str) -> None:
    with pytest.warns(UserWarning, match="sample 2 has the id `s0`, like sample 1"):
        verdicts = judge([SAMPLES[0], SAMPLES[0]], "llm-eval", server=url)
    assert [verdict.occurrence for verdict in verdicts] == [1, 2]


@pytest.mark.parametrize(
    ("sample", "fields", "said"),
    [
        (
            {"prompt": "a", "Actual Output": "b"},
            {},
            "no row of the input has the fields `context`, `response` that judge `llm-eval` needs; its columns are `prompt`, "
            "`Actual Output`; try `fields={'context': 'prompt', 'response': 'Actual Output'}`",
        ),
        (
            {"context": "a", "reply": "b"},
            {"response": "replies"},
            "the input has no column `replies`, which `fields={'response': 'replies'}` names; its columns are `context`, "
            "`reply`; did you mean `reply`?",
        ),
    ],
)
def test_samples_of_which_none_has_the_fields_are_warned_of(
    url: str, sample: dict[str, str], fields: dict[str, str], said: str
) -> None:
    with pytest.warns(UserWarning, match="`fields=") as warned:
        verdicts = judge([sample, sample], "llm-eval", server=url, fields=fields)
    assert [str(one.message) for one in warned] == [said]
    assert [verdict.status for verdict in verdicts] == ["unscored", "unscored"]


def test_a_file_of_which_no_row_can_be_judged_is_warned_of_by_its_name(url: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("context,reply\na,b\n")
    with pytest.warns(
        UserWarning, match=r"^no row of rows\.csv has the field `response` that .*; try `fields={'response': 'reply'}`$"
    ):
        judge(file, "llm-eval", server=url)


def in_a_notebook(cell: Any) -> Any:
    """Run a cell as a notebook does: in the thread of a loop that runs."""

    async def kernel() -> Any:
        return cell()

    return asyncio.run(kernel())


def test_a_notebook_judges_on_engines_that_it_opens_and_that_it_is_given() -> None:
    before = {*threading.enumerate()}
    settings: dict[str, Any] = {"model": TINY, "dtype": "float32"}
    opened = in_a_notebook(lambda: judge(SAMPLES[:2], "llm-eval", "transformers", **settings))
    assert [verdict.status for verdict in opened] == ["scored", "scored"]
    given = in_a_notebook(lambda: judge(SAMPLES[:2], LLMEval(), open_engine("transformers", **settings)))
    assert said(given) == said(opened)
    left = {*threading.enumerate()} - before
    assert not [thread.name for thread in left if thread.name in ("magistrate", "engine")]


def test_a_started_engine_stays_so() -> None:
    async def program() -> list[Verdicts]:
        async with open_engine("transformers", TINY, dtype="float32") as engine:
            return [await judge_async(SAMPLES[:2], asked, engine, expected=True) for asked in (LLMEval(), "llm-eval")]

    first, second = asyncio.run(program())
    assert {*(first[0].expected or {})} == {*first.metrics}
    assert said(second) == said(first)


def test_work_that_is_interrupted_cleans_up_beside_a_loop() -> None:
    before = {*threading.enumerate()}
    events: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            events.append("cleaned up")

    async def failing() -> None:
        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        assert not task.done()
        raise KeyError("it failed")

    def cell(work: Coroutine[Any, Any, None]) -> None:
        with pytest.raises(KeyError, match="it failed"):
            run(work)

    in_a_notebook(lambda: cell(failing()))
    assert events == ["cleaned up"]
    assert not [thread for thread in {*threading.enumerate()} - before if thread.name == "magistrate"]


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (("llm-eval",), {"modle": "x"}, "there is no setting `modle`; there are model, .*; did you mean `model`"),
        (("llm-eval",), {"think": -1}, "setting `think` must be a whole number from 0 to 131,072, not -1"),
        (("llm-eval", 5), {}, "`engine` must be an engine's name, or an engine of `open_engine`, not 5"),
        *(
            (
                ("llm-eval",),
                {"limit": limit, "model": TINY},
                f"`limit` must be a whole number of at least 1, not {limit!r}",
            )
            for limit in (0, -1, 1.5, True, "3")
        ),
        (("llm-eval", "vlm"), {}, "engine setting `engine` must be one of vllm, transformers, endpoint, not 'vlm'"),
        (("dredd",), {"server": "http://127.0.0.1:9"}, "there is no judge `dredd`"),
        (("llm-eval",), {"server": "http://127.0.0.1:9", "dtype": "float32"}, "`--dtype` has no meaning with `--server`"),
        (
            ("llm-eval",),
            {"fields": {"nothing": "x"}, "model": TINY},
            "^`fields={'nothing': 'x'}`: judge `llm-eval` has no field `nothing`",
        ),
        (("llm-eval",), {"options": {"nothing": 1}, "model": TINY}, "judge `llm-eval` has no option `nothing`"),
        ((LLMEval(),), {"options": {"scale": "0-5"}}, "options are those of a judge that is named"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(arguments: tuple[Any, ...], settings: dict[str, Any], said: str) -> None:
    with pytest.raises(MagistrateError, match=said):
        judge(SAMPLES, *arguments, **settings)


def test_what_holds_no_samples_is_said_before_anything_starts() -> None:
    with pytest.raises(MagistrateError, match=r"samples are a list of mappings, .*, not None"):
        judge(None, "llm-eval", model=TINY)


def test_an_open_engine_has_its_settings() -> None:
    engine = open_engine("endpoint", None, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(MagistrateError, match="`dtype` is a setting of an engine that is opened here"):
        judge(SAMPLES, LLMEval(), engine, dtype="float32")
    with pytest.raises(MagistrateError, match="name the judge of a given engine"):
        judge(SAMPLES, None, engine)


@pytest.mark.parametrize("function", [judge, judge_async])
def test_the_settings_are_declared_once(function: Any) -> None:
    assert {*SETTINGS} == {*EngineSettings.model_fields, *Decoding.model_fields}
    shown = inspect.signature(function).parameters
    assert {*SETTINGS} <= {*shown}
    assert {name: shown[name].default for name in ("dtype", "think")} == {"dtype": None, "think": 0}


def test_the_help_has_every_setting() -> None:
    for name, field in SETTINGS.items():
        assert name == "engine" or f"{name}: {field.description}" in (judge.__doc__ or "")
