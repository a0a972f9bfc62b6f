"""What is asked of a running server by plain HTTP: judging now, models, fingerprints, health and figures."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any

import httpx
import pytest

from judges.catalog import open_judge
from judges.data.rows import Row
from judges.runner import prepare
from tests.server.running import RunningServer, batch_file, dialogues, send_batch, wait_for_batch
from tests.tiny import TINY

SAMPLE = {"id": "greeting", "context": ["Hi! How are you?"], "response": "Fine, thank you. And you?"}


@pytest.fixture
def http(magistrate_server: RunningServer) -> Any:
    with httpx.Client(base_url=magistrate_server.url, timeout=60) as client:
        yield client


def judged(http: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = http.post("/v1/judgments", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def fault(http: httpx.Client, status: int, **body: Any) -> dict[str, Any]:
    answer = http.post("/v1/judgments", json=body)
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_verdicts_come_in_the_order_of_the_samples(http: httpx.Client) -> None:
    samples = dialogues(20)
    answer = judged(http, judge="llm-eval", samples=samples)
    assert [verdict["id"] for verdict in answer["data"]] == [str(number) for number in range(20)]
    assert all(verdict["status"] == "scored" and len(verdict["scores"]) == 4 for verdict in answer["data"])
    assert {verdict["fingerprint"] for verdict in answer["data"]} == {answer["fingerprint"]}
    assert (answer["model"], answer["judge"]) == ("magistrate-tiny", "llm-eval")


def test_the_same_sample_gets_the_same_verdict_and_the_key_that_a_file_run_gives_it(http: httpx.Client) -> None:
    first, second = (judged(http, judge="llm-eval", samples=[SAMPLE])["data"][0] for _ in range(2))
    assert first["scores"] == second["scores"]
    assert first["sample"] == prepare(Row("greeting", "here", SAMPLE), open_judge("llm-eval")).key


def test_a_bad_sample_gets_an_unscored_verdict_among_the_others(http: httpx.Client) -> None:
    answer = judged(http, judge="llm-eval", samples=[SAMPLE, {"context": ["Hi"]}, SAMPLE])
    assert [verdict["status"] for verdict in answer["data"]] == ["scored", "unscored", "scored"]
    assert "response" in answer["data"][1]["reason"]
    assert answer["data"][1]["id"] == "2"


def test_a_rubric_of_ones_own_and_expected_scores(http: httpx.Client) -> None:
    rubric = 'name = "kind"\nfields = ["reply"]\n[[metric]]\nname = "kindness"\ndescription = "Is it kind?"\nscale = "1-5"\n'
    verdict = judged(http, rubric=rubric, samples=[{"reply": "You are most welcome."}], expected=True)["data"][0]
    assert verdict["judge"] == "kind"
    assert 1 <= verdict["scores"]["kindness"] <= 5
    assert 1 <= verdict["expected"]["kindness"]["expectation"] <= 5


def test_faults_are_told_in_a_sentence(http: httpx.Client) -> None:
    assert "there is no judge `nobody`" in fault(http, 400, judge="nobody", samples=[SAMPLE])["message"]
    assert fault(http, 404, judge="llm-eval", model="gpt-5", samples=[SAMPLE])["code"] == "model_not_found"
    assert fault(http, 400, judge="llm-eval", samples=[])["param"] == "samples"
    assert fault(http, 413, judge="llm-eval", samples=[{}] * 1025)["code"] == "too_many_samples"
    assert "/etc/passwd" in fault(http, 400, judge="/etc/passwd.toml", samples=[SAMPLE])["message"]


def test_a_fingerprint_tells_what_verdicts_depend_on(http: httpx.Client) -> None:
    answer = http.post("/v1/fingerprints", json={"judge": "llm-eval"}).json()
    assert answer["digest"] == judged(http, judge="llm-eval", samples=[SAMPLE])["fingerprint"]
    assert answer["fields"]["identity"]["model"] == TINY
    other = http.post("/v1/fingerprints", json={"judge": "llm-eval", "expected": True}).json()
    assert other["digest"] != answer["digest"]


def test_models_and_their_state(http: httpx.Client) -> None:
    (model,) = http.get("/v1/models").json()["data"]
    assert (model["id"], model["state"], model["max_model_len"]) == ("magistrate-tiny", "ready", 8192)
    assert http.get("/v1/models/magistrate-tiny").json() == model
    assert http.get("/v1/models/none").status_code == 404
    assert http.get("/health").json() == {"status": "alive"}
    assert http.get("/ready").json()["ready"] is True


def test_a_model_without_adapters_says_so(http: httpx.Client) -> None:
    answer = http.post("/v1/adapters", json={"name": "weak-spots", "path": "/anywhere"})
    assert answer.status_code == 400
    assert "`adapters`" in answer.json()["error"]["message"]
    assert http.delete("/v1/adapters/weak-spots").status_code == 404


def test_figures_count_what_was_judged(http: httpx.Client) -> None:
    def scored() -> float:
        lines = http.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith('magistrate_judgments_total{judge="llm-eval",status="scored"}')]
        return float(found[0].split()[-1]) if found else 0.0

    before = scored()
    judged(http, judge="llm-eval", samples=dialogues(5))
    assert scored() == before + 5
    text = http.get("/metrics").text
    assert 'magistrate_model_state{model="magistrate-tiny",state="ready"} 1.0' in text
    assert 'kind="cached"' in text


def test_what_a_study_publishes_is_shown(http: httpx.Client, magistrate_server: RunningServer) -> None:
    assert "Nothing is published yet" in http.get("/dashboards/").text
    (magistrate_server.dashboards / "weak spots").mkdir(parents=True)
    (magistrate_server.dashboards / "weak spots" / "index.html").write_text("<h1>Travel</h1>")
    assert 'href="/dashboards/weak%20spots/"' in http.get("/dashboards/").text
    published = http.get("/dashboards/weak%20spots/")
    assert "&lt;h1&gt;Travel&lt;/h1&gt;" in published.text
    frame = re.search('<iframe[^>]* sandbox="([^"]*)"', published.text)
    assert frame is not None
    assert "allow-scripts" in frame[1], "its scripts run, but with no visitor's key"
    assert "allow-same-origin" not in frame[1]
    assert http.get("/dashboards/../magistrate.db").status_code == 404
    assert http.get("/dashboards/%2e%2e/magistrate.db").status_code == 404


def test_none_of_vllms_own_routes_is_there(http: httpx.Client) -> None:
    for path in (
        "/tokenize",
        "/detokenize",
        "/invocations",
        "/v1/load_lora_adapter",
        "/collective_rpc",
        "/sleep",
        "/v1/embeddings",
    ):
        assert http.post(path, json={}).status_code in (404, 405), path


def test_broken_lines_and_duplicates_are_told_and_the_others_judged(magistrate_server: RunningServer, tmp_path: Any) -> None:
    file = batch_file(tmp_path / "batch.jsonl", dialogues(20))
    lines = file.read_text().splitlines()
    lines[16] = lines[16][:50]
    lines[18] = lines[0]
    lines.append(
        json.dumps({**json.loads(lines[1]), "custom_id": "two", "body": {"model": "magistrate-tiny", "samples": [{}, {}]}})
    )
    file.write_text("\n".join(lines))
    client = magistrate_server.client
    batch = wait_for_batch(client, send_batch(client, file))
    assert (batch.status, batch.request_counts.completed, batch.request_counts.failed) == ("completed", 18, 3)
    errors = [json.loads(line) for line in client.files.content(batch.error_file_id).text.splitlines()]
    assert [error["error"] and error["error"]["code"] for error in errors] == ["invalid_json_line", "duplicate_custom_id", None]
    assert errors[0]["error"]["line"] == 17
    assert "one sample" in errors[2]["response"]["body"]["error"]["message"]
    output = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    assert [line["custom_id"] for line in output] == [f"row-{number}" for number in range(20) if number not in (16, 18)]
    assert output[0]["response"]["body"]["data"][0]["id"] == "0"


def test_a_batch_of_chat_completions(magistrate_server: RunningServer, tmp_path: Any) -> None:
    body = {"model": "magistrate-tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    lines = [{"custom_id": f"c{n}", "method": "POST", "url": "/v1/chat/completions", "body": body} for n in range(3)]
    lines.append({**lines[0], "custom_id": "bad", "body": {**body, "messages": "no list"}})
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)))
    client = magistrate_server.client
    file = client.files.create(file=tmp_path / "chat.jsonl", purpose="batch")
    created = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    batch = wait_for_batch(client, created.id)
    assert (batch.request_counts.completed, batch.request_counts.failed) == (3, 1)
    first = json.loads(client.files.content(batch.output_file_id).text.splitlines()[0])
    assert first["response"]["body"]["object"] == "chat.completion"
    assert first["response"]["body"]["usage"]["completion_tokens"] <= 4


def test_a_cancelled_batch_stops_and_keeps_what_is_judged(magistrate_server: RunningServer, tmp_path: Any) -> None:
    client = magistrate_server.client
    batch_id = send_batch(client, batch_file(tmp_path / "batch.jsonl", dialogues(2000)))
    while client.batches.retrieve(batch_id).request_counts.completed < 20:  # type: ignore[union-attr]
        time.sleep(0.1)
    assert client.batches.cancel(batch_id).status == "cancelling"
    batch = wait_for_batch(client, batch_id, 60)
    assert batch.status == "cancelled"
    kept = batch.request_counts.completed
    assert 20 <= kept < 2000
    assert len(client.files.content(batch.output_file_id).text.splitlines()) == kept


def test_a_call_is_answered_while_a_batch_runs_and_the_batch_still_moves(magistrate_server: RunningServer, tmp_path: Any) -> None:
    client = magistrate_server.client
    batch_id = send_batch(client, batch_file(tmp_path / "batch.jsonl", dialogues(300)))
    verdicts: list[dict[str, Any]] = []

    def call() -> None:
        with httpx.Client(base_url=magistrate_server.url, timeout=60) as http:
            verdicts.extend(judged(http, judge="llm-eval", samples=[sample])["data"][0] for sample in dialogues(10))

    caller = threading.Thread(target=call)
    caller.start()
    caller.join()
    assert client.batches.retrieve(batch_id).status == "in_progress", "ten calls came before the end of 300 lines"
    batch = wait_for_batch(client, batch_id)
    assert batch.request_counts.completed == 300
    output = [
        json.loads(line)["response"]["body"]["data"][0] for line in client.files.content(batch.output_file_id).text.splitlines()
    ]
    # Interrupted or not, in float32 the answers are the same.
    assert [verdict["scores"] for verdict in verdicts] == [verdict["scores"] for verdict in output[:10]]
