"""A server that hosts a classifier beside a model that writes text."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.classifiers import classifier, peer_logits
from tests.server.running import RunningServer, send_batch, wait_for_batch
from tests.tiny import TINY

MODELS = """\
[models.rewards]
model = "{rewards}"
dtype = "float32"
max_num_seqs = 4
max_model_len = 2048

[models.writes]
model = "{writes}"
engine = "transformers"
dtype = "float32"
"""
SAMPLE = {"id": "1", "question": "Tea or coffee?", "answer_a": "Tea, please.", "answer_b": "No."}


def test_a_classifier_judges_now_and_in_batches_and_writes_nothing(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "rewards")
    server = RunningServer(tmp_path / "server", models=MODELS.format(rewards=folder, writes=TINY)).start()
    try:
        server.wait_until_ready()
        check_judgments(server, folder)
        check_refusals(server)
        check_batch(server, tmp_path / "batch.jsonl")
    finally:
        assert server.stop() == 0


def judge(server: RunningServer, **body: object) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/judgments", json={"samples": [SAMPLE], **body}, timeout=60)


def check_judgments(server: RunningServer, folder: Path) -> None:
    conversations = [[("user", SAMPLE["question"]), ("assistant", SAMPLE[name])] for name in ("answer_a", "answer_b")]
    (first,), (second,) = peer_logits(folder, conversations)
    for options in ({}, {"label": "LABEL_0"}):
        answer = judge(server, judge="reward-pairwise", model="rewards", options=options)
        assert answer.status_code == 200, answer.text
        (verdict,) = answer.json()["data"]
        assert verdict["scores"] == {"preference": "A" if first > second else "B"}
        assert abs(verdict["detail"]["rewards"]["A"] - first) < 2e-4
        assert abs(verdict["detail"]["rewards"]["B"] - second) < 2e-4


def check_refusals(server: RunningServer) -> None:
    wrong = judge(server, judge="pairwise", model="rewards")
    assert wrong.status_code == 400
    assert "is a classifier and writes no text, which judge `pairwise` asks for" in wrong.json()["error"]["message"]
    wrong = judge(server, judge="reward-pairwise", model="writes")
    assert wrong.status_code == 400
    assert "has no classification head" in wrong.json()["error"]["message"]
    chat = {"model": "rewards", "messages": [{"role": "user", "content": "Hi"}]}
    wrong = httpx.post(f"{server.url}/v1/chat/completions", json=chat, timeout=60)
    assert wrong.status_code == 501
    assert "it is a classifier and writes no text" in wrong.json()["error"]["message"]


def check_batch(server: RunningServer, path: Path) -> None:
    lines = []
    for number in range(3):
        body = {"judge": "reward-pairwise", "model": "rewards", "samples": [{**SAMPLE, "answer_b": f"No, {number}."}]}
        lines.append(json.dumps({"custom_id": str(number), "method": "POST", "url": "/v1/judgments", "body": body}))
    path.write_text("\n".join(lines))
    batch = wait_for_batch(server.client, send_batch(server.client, path))
    assert (batch.status, batch.request_counts.completed, batch.request_counts.failed) == ("completed", 3, 0)
