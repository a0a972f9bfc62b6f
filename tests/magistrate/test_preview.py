"""``--dry-run``: what would be asked is shown, and nothing is loaded but the tokenizer, judged or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from judges.data.rows import read_rows
from judges.llm_eval import LLMEval
from judges.runner import prepare
from magistrate.cli.main import SAMPLE
from tests.magistrate.test_cli import assert_one_sentence, magistrate, read, score, write
from tests.tiny import TINY

HELPDESK = SAMPLE.with_name("helpdesk.toml")


def test_a_dry_run_shows_the_columns_the_first_prompt_and_what_all_take(tmp_path: Path) -> None:
    rows = [*read(SAMPLE)[:5], {"id": "x", "context": "Tea?"}]
    source = write(tmp_path / "rows.jsonl", [{("said" if key == "response" else key): row[key] for key in row} for row in rows])
    done = score(source, tmp_path / "v.jsonl", "--dry-run", "--field", "response=said")
    assert done.returncode == 0, done.stderr
    assert "columns id, context, said, reference" in done.stdout
    assert "judge llm-eval reads id, context, response from said, reference" in done.stdout
    assert "1 unscored: bad row: " in done.stdout
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    lengths, shown = [], []
    for row in list(read_rows(SAMPLE))[:5]:
        rendered = prepare(row, LLMEval()).rendered
        assert rendered is not None
        turns = [{"role": turn.role, "content": turn.content} for turn in rendered.prompts[0].messages]
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
        lengths.append(len(ids))
        shown.append(tokenizer.decode(ids))
    assert shown[0] in done.stdout
    assert "5 prompts would be asked" in done.stdout
    assert f"a prompt has {min(lengths)} to {max(lengths)} tokens" in done.stdout
    assert f"all have {sum(lengths):,}" in done.stdout
    assert "would not fit" not in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]
    short = score(source, tmp_path / "v.jsonl", "--dry-run", "--field", "response=said", "--max-model-len", "300", "--json", "-q")
    assert "5 prompts would not fit the context of 300 tokens with the answer" in short.stdout


def test_a_dry_run_of_a_run_that_resumes_looks_at_what_is_missing(tmp_path: Path) -> None:
    output = tmp_path / "v.jsonl"
    assert score(SAMPLE, output, "--limit", "3").returncode == 0
    before = output.read_bytes()
    done = score(SAMPLE, output, "--dry-run", "--limit", "5")
    assert "3 are scored by an earlier run" in done.stdout
    assert "2 prompts would be asked" in done.stdout
    assert "nothing is left to ask" in score(SAMPLE, output, "--dry-run", "--limit", "3").stdout
    assert output.read_bytes() == before
    rows = write(tmp_path / "fewer.jsonl", read(SAMPLE)[:2])
    fewer = score(rows, output, "--dry-run")  # a run would move the third verdict away
    assert fewer.stdout.splitlines()[-1] == "nothing is left to ask; nothing was judged or written (`--dry-run`)"
    assert "moved" not in fewer.stdout
    assert_one_sentence(score(SAMPLE, output, "--dry-run", "--expected"), "expected", "--overwrite")


@pytest.mark.parametrize(
    "command",
    [
        ("meta", "grouse"),
        ("judges", "card"),
        ("qualeval", "run", "--config", HELPDESK, "--data", HELPDESK.with_suffix(".jsonl")),
        ("generate", "--config", HELPDESK, "--data", HELPDESK.with_suffix(".jsonl")),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_studies_show_their_first_prompt(command: tuple[str | Path, ...], tmp_path: Path) -> None:
    done = magistrate(*command, "--model", TINY, "--dry-run", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "<|begin_of_text|><|start_header_id|>user<|end_header_id|>" in done.stdout
    assert "nothing was judged or written" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_server_that_judges_is_not_asked(tmp_path: Path) -> None:
    flags = ("-o", tmp_path / "v.jsonl", "--server", "http://127.0.0.1:9", "--dry-run")
    assert_one_sentence(magistrate("score", SAMPLE, *flags), "`--dry-run` has no meaning with `--server`")
