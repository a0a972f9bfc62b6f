"""Logs of other harnesses, written by them (``scripts/make_harness_logs.py``), and logs that are broken or mean harm."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from judges.data.logs import archive
from judges.data.rows import Row, count_rows, read_rows
from judges.data.sources import forget_standard_input, standard_input
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.llm_eval import LLMEval
from judges.runner import prepare

LOGS = Path(__file__).parents[2] / "data" / "harnesses"
"""Real logs of one small run in each tool; the model under test fails at the last question."""

MEMORY = 1 << 30
"""Bytes of address space that a reader may take of a hostile file."""


def read(name: str) -> dict[str, Row]:
    return {row.id: row for row in read_rows(LOGS / name)}


def fields(row: Row) -> dict[str, Any]:
    assert row.sample is not None, row.problem
    return dict(row.sample)


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_inspects_samples_have_what_was_asked_answered_and_scored(name: str) -> None:
    rows = read(name)
    assert [*rows] == [f"q{n}{epoch}" for epoch in ("", "_epoch_2") for n in range(1, 5)]
    first, talk = fields(rows["q1"]), fields(rows["q2_epoch_2"])
    assert first["context"] == first["question"] == first["input"] == "When does the shop open?"
    assert first["response"] == first["answer"] == first["actual_output"] == "It opens at nine in the morning."
    assert first["reference"] == first["expected_output"] == "At nine."
    assert first["scores"] == {"includes": 0, "lengths": {"words": 7, "letters": 32}}
    assert (first["model"], first["metadata"], first["epoch"]) == ("mockllm/model", {"topic": "shop"}, 1)
    assert talk["context"] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Do you sell tea?"}]
    assert talk["question"] == "system: Be short.\nuser: Do you sell tea?"
    assert talk["reference"] == "Yes.\nYes, we do.", "several targets are right"
    assert talk["scores"]["lengths"] is None, "unscored is not 0"
    assert talk["sample_id"] == "q2"
    assert fields(rows["q3"])["scores"]["includes"] == 1, "C is 1"
    assert rows["q4"].sample is None
    assert rows["q4"].problem == f"{name} row 4: has no output: the sample failed with `ValueError('the shop is closed')`"


def test_both_forms_of_inspects_log_are_the_same_rows() -> None:
    assert [row.sample for row in read_rows(LOGS / "inspect.eval")] == [row.sample for row in read_rows(LOGS / "inspect.json")]


def test_lm_evals_samples_have_a_row_for_each_filter() -> None:
    rows = read("lm_eval_shop.jsonl")
    assert [*rows] == [f"{n}-{name}" for name in ("whole", "first-word") for n in range(4)]
    whole = fields(rows["0-whole"])
    assert whole["context"] == "Question: When does the shop open?\nAnswer:"
    assert (whole["response"], whole["reference"]) == ("It opens at nine in the morning.", "At nine.")
    assert whole["scores"] == {"exact_match": 0.0}
    assert whole["doc"] == {"question": "When does the shop open?", "answer": "At nine."}, "`--field context=doc.question` too"
    assert fields(rows["0-first-word"])["response"] == "It"


def test_lm_evals_choices_have_no_answer_to_judge() -> None:
    problems = [row.problem for row in read_rows(LOGS / "lm_eval_choice.jsonl")]
    said = "holds log-likelihoods and no answer; a judge reads tasks whose `output_type` is `generate_until`"
    assert problems == [f"lm_eval_choice.jsonl row {n}: {said}" for n in range(1, 5)]


@pytest.mark.parametrize("name", ["promptfoo.json", "promptfoo.jsonl"])
def test_promptfoos_results_are_known_by_test_and_prompt(name: str) -> None:
    rows = read(name)
    assert [*rows] == [f"{test}-{prompt}" for test in range(4) for prompt in range(2)]
    right, chat = fields(rows["2-0"]), fields(rows["0-1"])
    assert (right["context"], right["response"]) == ("Where are you?", "At Mill Lane 4, behind the church.")
    assert (right["reference"], right["model"]) == ("Mill Lane 4", "shop")
    assert right["scores"] == {"score": 1, "success": 1, "place": 1}
    assert chat["context"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "When does the shop open?"},
    ]
    assert chat["scores"] == {"score": 0.5, "success": 0, "place": 1}
    assert rows["3-0"].problem == f"{name} row 7: has no output: `the shop is closed`"


def test_deepevals_cases_have_their_documents() -> None:
    rows = read("deepeval.json")
    assert [*rows] == ["q1", "q2", "q3"]
    third = fields(rows["q3"])
    assert (third["question"], third["actual_output"]) == ("Where are you?", "At Mill Lane 4, behind the church.")
    assert third["references"] == ["Where are you? Mill Lane 4"]
    assert third["scores"] == {"Exact Match": 0.0}


def test_a_conversation_of_deepeval_is_a_whole_dialogue() -> None:
    (row,) = read("deepeval_talk.json").values()
    assert row.id == "talk"
    assert fields(row)["scores"] == {"Turns": 1.0}
    (prompt,) = LLMEval().render(fields(row)).prompts
    assert "assistant: It opens at nine in the morning." in prompt.messages[0].content


def test_deepevals_latest_run_is_the_same_under_one_more_key(tmp_path: Path) -> None:
    path = tmp_path / ".latest_test_run.json"
    path.write_text(json.dumps({"testRunData": json.loads((LOGS / "deepeval.json").read_text())}))
    assert [row.sample for row in read_rows(path)] == [row.sample for row in read_rows(LOGS / "deepeval.json")]


@pytest.mark.parametrize("name", ["inspect.eval", "lm_eval_shop.jsonl", "promptfoo.json", "deepeval.json"])
def test_judges_read_every_log_as_it_is(name: str) -> None:
    asked = [prepare(row, LLMEval()) for row in read_rows(LOGS / name) if row.sample is not None]
    assert [sample.problem for sample in asked] == [None] * len(asked)
    assert asked
    row = next(iter(read_rows(LOGS / name)))
    documents = {"references": ["It opens at nine."]} | fields(row)
    assert Grouse().render(documents).prompts, "another judge reads other names"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lm_eval_results.json", "holds lm-evaluation-harness's results and no answers; give its `samples_TASK_DATE.jsonl`"),
        ("deepeval_cache.json", "is deepeval's cache of scores; give `.latest_test_run.json` beside it"),
    ],
)
def test_what_stands_beside_a_log_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(MagistrateError, match=said):
        list(read_rows(LOGS / name))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"samples": []}, "must hold a list of samples, or be a log of inspect_ai, promptfoo or deepeval"),
        ({"results": {"version": 3, "results": "none"}}, "the samples of the log must be a list, not a string"),
        ({"version": 2, "status": "success", "eval": {}, "samples": {"q1": {}}}, "must be a list, not an object"),
        ("text", "must hold a list of samples"),
    ],
)
def test_an_object_of_another_shape_is_refused(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content))
    with pytest.raises(MagistrateError, match=said):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({}, "field `id` must be a text or a number, not null"),
        (7, "a sample must be an object, not a number"),
        ({"id": 1, "input": 3, "output": {"choices": [{}], "completion": "x"}}, "has no question"),
        ({"id": 1, "input": "x", "output": {"choices": []}}, "has no output"),
        ({"id": 1, "input": "x", "output": "x", "error": {"message": 3}}, "has no output"),
    ],
)
def test_a_sample_of_another_shape_is_a_bad_row_and_the_others_are_read(tmp_path: Path, sample: Any, said: str) -> None:
    path = tmp_path / "log.json"
    good = {
        "id": 2,
        "input": "x",
        "target": "",
        "output": {"choices": [{"message": {"content": [{"text": "a"}, {"text": "b"}]}}]},
    }
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": {}, "samples": [sample, good]}))
    bad, row = read_rows(path)
    assert bad.problem is not None
    assert bad.problem.endswith(said)
    assert fields(row)["response"] == "a\nb"
    assert "reference" not in fields(row), "an empty target is no reference"


def test_texts_that_inspect_keeps_apart_are_put_back(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    said = {"choices": [{}], "completion": "attachment://b"}
    sample = {
        "id": 1,
        "input": [{"role": "user", "content": "attachment://a"}],
        "output": said,
        "attachments": {"a": "long", "b": "longer"},
    }
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": {}, "samples": [sample]}))
    (row,) = read_rows(path)
    assert (fields(row)["context"], fields(row)["response"]) == ("long", "longer")


def test_several_answers_to_one_prompt_are_a_bad_row(tmp_path: Path) -> None:
    line = json.loads((LOGS / "lm_eval_shop.jsonl").read_text().splitlines()[0])
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(line | {"filtered_resps": [["a", "b"]]}) + "\n" + json.dumps(line | {"filtered_resps": [["a"]]}))
    several, one = read_rows(path)
    assert "holds 2 answers to one prompt; give the task a filter that takes one" in (several.problem or "")
    assert several.id == one.id == "0-whole"
    assert fields(one)["response"] == "a"


def repacked(path: Path, method: int = zipfile.ZIP_DEFLATED, replaced: Mapping[str, bytes] | None = None) -> Path:
    """The real archive by another method of Python's, with some parts replaced."""
    log_path = LOGS / "inspect.eval"
    with zipfile.ZipFile(path, "w", method) as packed, zipfile.ZipFile(log_path) as log, log_path.open("rb") as file:
        for name, part in log.NameToInfo.items():
            packed.writestr(name, (replaced or {}).get(name) or archive._unpacked_by_arrow(log, part, file))
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_older_logs_are_deflated(tmp_path: Path, method: int) -> None:
    path = repacked(tmp_path / "run.eval", method)
    assert [row.sample for row in read_rows(path)] == [row.sample for row in read_rows(LOGS / "inspect.eval")]
    assert count_rows(path) == 8


def test_a_log_of_a_run_that_was_killed_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "run.eval"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("_journal/start.json", "{}")
        sample = {"id": "a", "epoch": 1, "input": "x", "output": {"choices": [{}], "completion": "y"}}
        for name in ("b/10", "b/9", "a/9"):
            packed.writestr(f"samples/{name}_epoch_1.json", json.dumps(sample | {"id": name}))
    rows = list(read_rows(path))
    assert [row.id for row in rows] == ["a/9", "b/10", "b/9"]
    assert fields(rows[0])["scores"] == {}


def damaged(content: bytes, at: float) -> bytes:
    place = int(len(content) * at)
    return content[:place] + bytes(byte ^ 0xFF for byte in content[place : place + 64]) + content[place + 64 :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: b"", "is not a log of inspect_ai: file is not a zip file"),
        (lambda content: content[: len(content) // 2], "is not a log of inspect_ai: file is not a zip file"),
        (lambda content: b"not a zip" * 100, "is not a log of inspect_ai: file is not a zip file"),
        (
            lambda content: content.replace(b"header.json", b"reader.json").replace(b"start.json", b"stars.json"),
            "not a log of inspect",
        ),
    ],
)
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, change: Callable[[bytes], bytes], said: str) -> None:
    path = tmp_path / "run.eval"
    path.write_bytes(change((LOGS / "inspect.eval").read_bytes()))
    with pytest.raises(MagistrateError, match=said):
        list(read_rows(path))


@pytest.mark.parametrize("at", [0.1, 0.2, 0.3, 0.4, 0.5])
def test_a_damaged_archive_loses_its_damaged_samples_alone(tmp_path: Path, at: float) -> None:
    path = tmp_path / "run.eval"
    path.write_bytes(damaged((LOGS / "inspect.eval").read_bytes(), at))
    whole = {row.id: row.sample for row in read_rows(LOGS / "inspect.eval")}
    rows = list(read_rows(path))
    bad = [row for row in rows if row.problem and "cannot be unpacked" in row.problem]
    assert 1 <= len(bad) <= 2, "damage may reach from one into the next"
    assert all(row.sample == whole[row.id] for row in rows if row.sample is not None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff{}", "is not UTF-8 (byte 1)"),
        (b'{"id": ', "is not JSON"),
        (b"[1]", "a sample must be an object, not a list"),
        (b'{"id": 1, "id": 2}', "has the key `id` twice"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_a_part_that_is_no_sample_is_a_bad_row(tmp_path: Path, content: bytes, said: str) -> None:
    path = repacked(tmp_path / "run.eval", replaced={"samples/q2_epoch_1.json": content})
    rows = list(read_rows(path))
    assert said in (rows[1].problem or "")
    assert rows[1].id == "q2", "it is known by the name of its file"
    assert [row.id for row in rows if row.sample is not None] == ["q1", "q3", "q1_epoch_2", "q2_epoch_2", "q3_epoch_2"]


def squeezed(compression: str) -> bytes:
    """2 GiB of spaces."""
    spaces, times = b" " * (1 << 24), 128
    if compression == "deflate":
        packer = zlib.compressobj(9, wbits=-15)
        block = packer.compress(spaces) + packer.flush(zlib.Z_FULL_FLUSH)  # such a block may be repeated
        return block * times + packer.flush()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(times):
            stream.write(spaces)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def bomb(path: Path, compression: str, method: int) -> Path:
    """An archive whose one sample is that, and which does not say so."""
    name = b"samples/q1_epoch_1.json"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("header.json", "{}")
        packed.writestr(name.decode(), squeezed(compression))
    whole = path.read_bytes()  # stored; the two headers of the sample, 30 and 46 bytes, are to name the method
    for start, place in ((whole.index(name) - 30, 8), (whole.rindex(name) - 46, 10)):
        assert whole[start : start + 2] == b"PK"
        whole = whole[: start + place] + method.to_bytes(2, "little") + whole[start + place + 2 :]
    path.write_bytes(whole)
    return path


READ = """
import sys
from pathlib import Path
from judges.data.rows import read_rows
print([row.problem for row in read_rows(Path(sys.argv[1]))])
"""


def read_with_little_memory(path: Path) -> str:
    """What a process that may take 1 GiB of address space finds in a file."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # noqa: E731
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("compression", "method", "said"),
    [
        ("zstd", 93, "is larger than 64 MiB; score it where it is: `inspect score`"),
        ("deflate", 8, "cannot be unpacked: bad CRC-32"),
    ],
)
def test_a_bomb_is_unpacked_to_the_limit_alone(tmp_path: Path, compression: str, method: int, said: str) -> None:
    path = bomb(tmp_path / "run.eval", compression, method)
    assert path.stat().st_size < 1 << 24
    assert said in read_with_little_memory(path)


def test_a_line_of_gigabytes_is_a_bad_row_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a": "')
        file.seek(5 << 28)  # a hole, which takes no room on the disk
        file.write(b'"}\n{"id": "next"}\n')
    assert read_with_little_memory(path) == "['samples.jsonl row 1: is longer than 64 MiB', None]\n"


def test_an_object_of_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    with path.open("wb") as file:
        file.write(b'{"version": 2, "status": "')
        file.seek(5 << 28)
        file.write(b'"}')
    with pytest.raises(MagistrateError, match=r"one object is read up to 64 MiB, as a log.*`inspect log convert`"):
        list(read_rows(path))


@pytest.mark.parametrize(("name", "suffix"), [("inspect.eval", ".eval"), ("inspect.json", ".json"), ("promptfoo.json", ".json")])
def test_a_log_comes_from_standard_input_too(monkeypatch: pytest.MonkeyPatch, name: str, suffix: str) -> None:
    class Piped:
        buffer = io.BytesIO((LOGS / name).read_bytes())
        isatty = staticmethod(lambda: False)

    standard_input.cache_clear()
    monkeypatch.setattr("sys.stdin", Piped)
    try:
        assert [row.sample for row in read_rows(Path("-"))] == [row.sample for row in read_rows(LOGS / name)]
        assert standard_input().suffix == suffix
    finally:
        forget_standard_input()
        standard_input.cache_clear()


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in a content with each of its keys."""
    for key in content if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from places(content[key])


OBJECTS = ("inspect.json", "promptfoo.json", "deepeval.json", "deepeval_talk.json")


@pytest.mark.parametrize("name", [*OBJECTS, "lm_eval_shop.jsonl", "lm_eval_choice.jsonl"])
def test_any_part_may_be_anything(tmp_path: Path, name: str) -> None:
    """A row is read or has a sentence, whatever stands where something else should."""
    path = tmp_path / name
    text, lines = (LOGS / name).read_text(), name not in OBJECTS
    content: Any = [json.loads(line) for line in text.splitlines()][:2] if lines else json.loads(text)
    if name == "promptfoo.json":
        content = {"results": {"version": 3, "results": content["results"]["results"][1:3]}}
    if name == "inspect.json":
        content = {"version": 2, "status": "success", "eval": {}, "samples": content["samples"][1:3]}
    outcomes: set[object] = set()
    for holder, key in places(content):
        kept = holder[key]
        for other in (None, 3, "x", [None], {"a": None}, [[3, "x"]]):
            holder[key] = other
            path.write_text("\n".join(map(json.dumps, content)) if lines else json.dumps(content))
            try:
                outcomes |= {row.sample is None for row in read_rows(path)}
            except MagistrateError as error:
                outcomes.add(str(error).partition(": ")[0])
        holder[key] = kept
    assert {True, False} & outcomes
