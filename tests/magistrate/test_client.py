"""The Python client, against a real server, and against one that fails now and then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import magistrate
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.runner import prepare
from judges.verdict import Verdict
from magistrate import AsyncClient, Client
from tests.magistrate.faulty import Call, Fault, Faulty, faulty

SAMPLES: list[dict[str, Any]] = [{"id": f"s{n}", "context": f"Is {n} odd?", "response": f"{n} is odd."} for n in range(40)]
RUBRIC = 'name = "kind"\nfields = ["reply"]\n[[metric]]\nname = "kind"\ndescription = "Is it kind?"\nscale = "1-5"\n'


@pytest.fixture
def client(magistrate_server: Any) -> Iterator[Client]:
    with Client(magistrate_server.url) as client:
        yield client


@pytest.fixture
def between(magistrate_server: Any) -> Iterator[Faulty]:
    """A faulty server before the real one."""
    with faulty(magistrate_server.url) as state:
        yield state


def key_of(sample: dict[str, Any], name: str) -> str:
    return prepare(Row(name, "here", sample), LLMEval()).key


def said(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says, without the tokens it took, which depend on what else was judged."""
    return verdict.id, verdict.status, verdict.scores, verdict.reason, verdict.sample, verdict.fingerprint


def test_samples_go_in_and_verdicts_come_out(client: Client) -> None:
    verdicts = client.judge(SAMPLES)
    assert [verdict.id for verdict in verdicts] == [sample["id"] for sample in SAMPLES]
    assert {verdict.status for verdict in verdicts} == {"scored"}
    assert [verdict.sample for verdict in verdicts] == [key_of(sample, sample["id"]) for sample in SAMPLES]
    assert {verdict.fingerprint for verdict in verdicts} == {client.fingerprint("llm-eval").digest}
    assert verdicts[0].usage.prompt_tokens > 0
    assert client.judge([]) == []


def test_a_reason_names_a_sample_by_its_number_among_all(client: Client) -> None:
    nameless = [{name: value for name, value in sample.items() if name != "id"} for sample in SAMPLES]
    del nameless[35]["response"]
    verdicts = client.judge(iter(nameless))
    assert [verdict.id for verdict in verdicts] == [str(n) for n in range(1, 41)]
    assert verdicts[35].reason == "sample 36: field `response` is missing"
    assert verdicts[39].sample == key_of(nameless[39], "40")


def test_a_judge_takes_options_and_a_rubric_comes_as_text(client: Client) -> None:
    options = {"metrics": {"brief": "how short it is"}, "scale": "0-100"}
    (verdict,) = client.judge(SAMPLES[:1], "llm-eval", options=options, expected=True, model="magistrate-tiny")
    assert list(verdict.scores or {}) == ["brief"]
    assert list(verdict.expected or {}) == ["brief"]
    (ours,) = client.judge([{"reply": "You are welcome."}], rubric=RUBRIC)
    assert (ours.judge, ours.status) == ("kind", "scored")
    assert client.fingerprint(rubric=RUBRIC).judge == "kind"


def test_the_server_tells_what_it_has(client: Client) -> None:
    assert client.ready()
    assert [model["id"] for model in client.models()] == ["magistrate-tiny"]
    assert {"llm-eval", "grouse", "rubric"} <= {judge["name"] for judge in client.judges()}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda client: client.judge(SAMPLES, "dredd"), "there is no judge `dredd`; there are llm-eval"),
        (lambda client: client.judge(SAMPLES, model="gpt"), "there is no model `gpt` here; there are magistrate-tiny"),
        (lambda client: client.judge(SAMPLES, options={"scale": "0-7"}), "option `scale` of judge `llm-eval` must be one of"),
        (lambda client: client.judge([{"when": datetime.now(UTC)}]), "sample 1 cannot be sent as JSON: Object of type datetime"),
        (lambda client: client.judge(SAMPLES[0]), "the samples are one object, of id, context, response; give a list of samples"),
        (lambda client: client.batch("batch_" + 24 * "0").status(), "there is no batch with this id"),
        (lambda client: client.submit([]), "the file holds no line"),
    ],
)
def test_a_fault_is_the_servers_own_sentence(client: Client, call: Any, words: str) -> None:
    with pytest.raises(MagistrateError) as fault:
        call(client)
    assert str(fault.value).startswith(words)


def test_no_server_and_no_address_are_one_sentence_each() -> None:
    with Client("http://127.0.0.1:1", patience=0.1) as client:
        assert not client.ready()
        with pytest.raises(MagistrateError, match=r"no server answers at http://127.0.0.1:1 .* is it running"):
            client.models()
    with pytest.raises(MagistrateError, match="the client is closed"):
        client.models()
    for address in ("127.0.0.1:8700", "ftp://host", "", "http://"):
        with pytest.raises(MagistrateError, match="is not the address of a server; give one like http"):
            Client(address)
    with pytest.raises(MagistrateError, match="characters that keys do not have"):
        Client(key="schlüssel")


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, between: Faulty) -> None:
    monkeypatch.setenv("MAGISTRATE_API_KEY", "mag_from_there")
    with Client(between.url) as client:
        client.models()
    with Client(between.url, "mag_given") as client:
        client.models()
    assert [call.headers["Authorization"] for call in between.calls] == ["Bearer mag_from_there", "Bearer mag_given"]
    between.faults = [Fault(401)]
    with Client(between.url) as client, pytest.raises(MagistrateError, match=r"as told .or set MAGISTRATE_API_KEY"):
        client.models()


@pytest.mark.parametrize("fault", [Fault(429, "0.2"), Fault(503), Fault(), Fault(passed_on=True), Fault(passed_on=True, sent=20)])
def test_what_passes_is_tried_again(between: Faulty, fault: Fault) -> None:
    between.faults = [fault, fault]
    with Client(between.url) as client:
        (verdict,) = client.judge(SAMPLES[:1])
    assert verdict.status == "scored"
    assert between.paths() == ["POST /v1/judgments"] * 3


def test_patience_ends(between: Faulty) -> None:
    between.choose = lambda call: Fault(503)
    with Client(between.url, patience=1.0) as client, pytest.raises(MagistrateError, match="fault 503, as told"):
        client.judge(SAMPLES[:1])
    assert len(between.calls) == 2
    between.choose = lambda call: Fault()
    with Client(between.url, patience=0.1) as client, pytest.raises(MagistrateError, match="no server answers"):
        client.judge(SAMPLES[:1])
    between.choose = lambda call: Fault(429, "600")
    with Client(between.url) as client, pytest.raises(MagistrateError, match="fault 429"):
        client.judge(SAMPLES[:1])


def test_what_does_not_pass_is_not_tried_again(between: Faulty) -> None:
    between.faults = [Fault(500)]
    with Client(between.url) as client, pytest.raises(MagistrateError, match="fault 500, as told"):
        client.judge(SAMPLES[:1])
    assert len(between.calls) == 1


def test_a_call_that_is_too_large_is_divided(between: Faulty) -> None:
    def at_most_three(call: Call) -> Fault | None:
        return Fault(413) if len(json.loads(call.body)["samples"]) > 3 or b"s7" in call.body else None

    between.choose = at_most_three
    with Client(between.url) as client:
        assert [verdict.id for verdict in client.judge(SAMPLES[:7])] == [f"s{n}" for n in range(7)]
        with pytest.raises(MagistrateError, match="sample 8: fault 413"):
            client.judge(SAMPLES[:9])


def test_a_batch_gives_the_same_verdicts(client: Client, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    batch = client.submit(SAMPLES, "llm-eval", metadata={"study": "first"})
    assert batch.wait(lambda done, total: told.append((done, total))) is batch
    assert told[-1] == (40, 40)
    assert batch.status()["metadata"] == {"study": "first"}
    at_once = [said(verdict) for verdict in client.judge(SAMPLES, "llm-eval")]
    assert [said(verdict) for verdict in batch.verdicts()] == at_once
    assert [said(verdict) for verdict in client.batch(batch.id).verdicts()] == at_once
    file = tmp_path / "rows.jsonl"
    file.write_text("\n\n" + "\n".join(map(json.dumps, [*SAMPLES, {"context": "Who?", "response": "Me."}, {"context": "a"}])))
    *same, nameless, bad = client.submit(file, "llm-eval").wait().verdicts()
    assert [said(verdict) for verdict in same] == at_once
    assert (nameless.id, nameless.status, bad.id, bad.status) == ("43", "scored", "44", "unscored")


def test_a_row_that_cannot_be_read_leaves_nothing_behind(client: Client, magistrate_server: Any, tmp_path: Path) -> None:
    def files() -> list[str]:
        return [file["id"] for file in httpx.get(f"{magistrate_server.url}/v1/files").json()["data"]]

    before = files()
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(SAMPLES[0]) + "\n{no json\n")
    with pytest.raises(MagistrateError, match=r"rows.jsonl row 2: is not JSON.*score --server"):
        client.submit(file)
    assert files() == before


def test_what_a_batch_cannot_ask_is_unscored_in_its_place(client: Client) -> None:
    batch = client.submit(SAMPLES[:3], "llm-eval", options={"scale": "0-7"}).wait()
    verdicts = list(batch.verdicts())
    assert [verdict.id for verdict in verdicts] == ["1", "2", "3"]
    assert all((verdict.reason or "").startswith("engine error: option `scale` of judge") for verdict in verdicts)


def test_a_batch_whose_answer_was_lost_is_not_made_twice(between: Faulty, client: Client) -> None:
    def lost(call: Call) -> Fault | None:
        return Fault(passed_on=True) if between.paths().count("POST /v1/batches") == 1 and call.path == "/v1/batches" else None

    between.choose = lost
    with Client(between.url) as unlucky:
        batch = unlucky.submit(SAMPLES[:5])
    made = httpx.get(f"{between.url}/v1/batches?limit=5").json()["data"]
    wanted = client.batch(batch.id).wait().status()["input_file_id"]
    assert [one["id"] for one in made if one["input_file_id"] == wanted] == [batch.id]
    between.choose = lambda call: Fault() if between.paths().count("POST /v1/batches") == 2 and call.method == "POST" else None
    with Client(between.url) as unlucky:
        assert len(list(unlucky.submit(SAMPLES[:2]).wait().verdicts())) == 2


def test_a_reading_that_breaks_off_goes_on(between: Faulty, client: Client) -> None:
    name = client.submit(SAMPLES).wait().id
    sent = iter([9_000, 20_000])
    between.choose = lambda call: Fault(passed_on=True, sent=size) if "content" in call.path and (size := next(sent, 0)) else None
    with Client(between.url) as unlucky:
        assert [verdict.id for verdict in unlucky.batch(name).verdicts()] == [sample["id"] for sample in SAMPLES]
    assert sum("content" in path for path in between.paths()) == 3
    between.choose = lambda call: Fault(passed_on=True, sent=0) if "content" in call.path else None
    with Client(between.url) as unlucky, pytest.raises(MagistrateError, match="no longer answers"):
        list(unlucky.batch(name).verdicts())


def test_a_batch_is_cancelled(client: Client) -> None:
    batch = client.submit([{"context": str(n), "response": "no"} for n in range(2000)])
    batch.cancel()
    status = batch.wait().status()
    assert status["status"] == "cancelled"
    assert len(list(batch.verdicts())) == status["request_counts"]["completed"] < 2000


def test_both_clients_work_beside_a_running_loop(magistrate_server: Any) -> None:
    async def both() -> tuple[list[Verdict], list[Verdict]]:
        async with AsyncClient(magistrate_server.url) as client:
            theirs = await client.judge(SAMPLES[:3])
        with Client(magistrate_server.url) as blocking:
            return theirs, blocking.judge(SAMPLES[:3])

    theirs, ours = asyncio.run(both())
    assert [said(verdict) for verdict in theirs] == [said(verdict) for verdict in ours]


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute `Bailiff`"):
        _ = magistrate.Bailiff


def test_samples_of_one_id_are_told_apart(client: Client) -> None:
    samples = [{**SAMPLES[n], "id": name} for n, name in enumerate([5, 5.0, "x", "5"])]
    with pytest.warns(UserWarning, match="sample [24] has the id `5`, like sample 1") as warned:
        verdicts = client.judge(samples)
    assert len(warned) == 2
    assert [(verdict.id, verdict.occurrence) for verdict in verdicts] == [("5", 1), ("5", 2), ("x", 1), ("5", 3)]
    with pytest.warns(UserWarning, match="sample 2 has the id `5`"):
        batch = client.submit(samples[:2])
    assert [verdict.id for verdict in batch.wait().verdicts()] == ["5", "5"]
