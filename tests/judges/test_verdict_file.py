from __future__ import annotations

import errno
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from judges.decoding import Decoding, SampledDecoding
from judges.engines.engine import EngineIdentity, Usage
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.llm_eval import LLMEval
from judges.verdict import Fingerprint, Status, Verdict
from judges.verdict_file import VerdictFile
from judges.verdict_lines import numbered_verdicts, sidecar

PRINT = Fingerprint.of(LLMEval(), EngineIdentity("vllm", "0.32.0", "tiny", "abc", "outlines"))


def key(number: int) -> str:
    return f"{number:032x}"


def verdict(number: int, reason: str | None = None) -> Verdict:
    scores = None if reason else {"a": number % 6}
    expected = None if reason else {"a": Expectation(1.5, 0.2)}
    status: Status = "unscored" if reason else "scored"
    return Verdict(
        id=str(number),
        judge="llm-eval",
        status=status,
        reason=reason,
        scores=scores,
        expected=expected,
        sample=key(number),
        fingerprint=PRINT.digest,
        usage=Usage(9, 4, 2),
    )


def judge(path: Path, numbers: list[int], order: list[int] | None = None, *, finish: bool = True) -> list[int]:
    """A run over samples with these numbers. Returns those it had to judge."""
    with VerdictFile(path, PRINT) as file:
        needed = [number for number in numbers if file.needs(key(number))]
        for number in order or needed:
            file.append(verdict(number))
        if finish:
            file.finish()
    return needed


def on(gpu: str | None, **options: str) -> Fingerprint:
    """A run's fingerprint on a kind of GPU; ``None`` for a CPU."""
    hardware = {} if gpu is None else {"gpu": gpu, "model_runner": "vLLM's choice"}
    return replace(PRINT, identity=replace(PRINT.identity, options={**options, **hardware}))


def test_verdicts_of_other_hardware_are_mixed_in_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    prints = on("NVIDIA H100"), on("NVIDIA A100"), on(None)
    for number, fingerprint in enumerate(prints):
        if number:
            with pytest.raises(MagistrateError, match=r"gpu .*; with `--allow-mixed`"), VerdictFile(path, fingerprint):
                pass
        with VerdictFile(path, fingerprint, mixed=True) as file:
            assert [file.needs(key(other)) for other in range(number + 1)] == [False] * number + [True]
            file.append(replace(verdict(number), fingerprint=fingerprint.digest))
            file.finish()
    assert [json.loads(line)["fingerprint"] for line in path.read_text().splitlines()] == [one.digest for one in prints]


@pytest.mark.parametrize("other", [on("NVIDIA A100", dtype="float32"), replace(on("NVIDIA A100"), judge_version="other")])
def test_verdicts_that_differ_in_more_than_hardware_are_never_mixed_in(tmp_path: Path, other: Fingerprint) -> None:
    path = tmp_path / "v.jsonl"
    with VerdictFile(path, on("NVIDIA H100")) as file:
        file.append(replace(verdict(0), fingerprint=on("NVIDIA H100").digest))
    with pytest.raises(MagistrateError, match=r"another judge, model or setting .*or `--overwrite`$"):
        VerdictFile(path, other, mixed=True).__enter__()


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_a_verdict_is_read_back_as_written() -> None:
    for one in (verdict(3), verdict(4, "context overflow"), replace(verdict(5), notes=["x"], justification="é\n\ud7ff")):
        assert Verdict.from_json(one.to_json()) == one


def test_the_fields_of_a_line_are_the_contract() -> None:
    assert list(json.loads(verdict(1).to_json())) == [
        *["id", "judge", "status", "reason", "scores", "expected", "justification", "detail", "recovered", "notes"],
        *["sample", "fingerprint", "usage"],
    ]
    assert json.loads(verdict(1).to_json())["usage"] == {"prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 2}


def test_the_file_ends_in_the_inputs_order(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2, 3, 4], order=[3, 1, 4, 2])
    assert ids(path) == ["1", "2", "3", "4"]


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2, 3, 4], order=[3, 1], finish=False)
    assert judge(path, [1, 2, 3, 4]) == [2, 4]
    assert ids(path) == ["1", "2", "3", "4"]
    assert judge(path, [1, 2, 3, 4]) == []


@pytest.mark.parametrize("torn", range(1, 200, 9))
def test_a_torn_last_line_is_cut_off_and_judged_again(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2, 3])
    whole = path.read_bytes()
    path.write_bytes(whole[:-torn])
    assert judge(path, [1, 2, 3]) == [3]
    assert path.read_bytes() == whole


def test_equal_samples_each_have_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [7, 7, 7], order=[7, 7], finish=False)
    assert judge(path, [7, 7, 7]) == [7]
    assert ids(path) == ["7", "7", "7"]


def test_verdicts_of_samples_that_are_gone_are_moved_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2, 3])
    with VerdictFile(path, PRINT) as file:
        assert [file.needs(key(number)) for number in (3, 5)] == [False, True]
        file.append(verdict(5))
        leftover = file.finish()
    assert ids(path) == ["3", "5"]
    assert leftover == tmp_path / "v.leftover.jsonl"
    assert ids(leftover) == ["1", "2"]


def test_a_run_over_the_first_rows_leaves_the_others_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2, 3, 4], order=[4, 2, 3, 1])
    with VerdictFile(path, PRINT) as file:
        assert [file.needs(key(number)) for number in (1, 2)] == [False, False]
        assert file.finish(whole=False) is None
    assert ids(path) == ["1", "2", "3", "4"]


def test_an_engines_fault_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    with VerdictFile(path, PRINT) as file:
        for number in (1, 2, 3):
            file.needs(key(number))
        file.append(verdict(1))
        file.append(verdict(2, "engine error: HTTP 500"))
        file.append(verdict(3, "context overflow: no"))
        file.finish()
    assert judge(path, [1, 2, 3]) == [2]
    assert ids(path) == ["1", "2", "3"]
    assert [one.status for one in map(Verdict.from_json, path.read_text().splitlines())] == ["scored", "scored", "unscored"]


def test_verdicts_of_another_setting_are_never_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2])
    before = path.read_bytes()
    other = Fingerprint.of(LLMEval(), EngineIdentity("vllm", "0.32.0", "large", "def", "outlines"))
    with (
        pytest.raises(MagistrateError, match=r"model tiny there, large here, weights abc there, def here"),
        VerdictFile(path, other),
    ):
        pass
    assert path.read_bytes() == before
    options = Fingerprint.of(LLMEval(scale="0-100"), PRINT.identity)
    with pytest.raises(MagistrateError, match=r"\(prompts or options of the judge\)"), VerdictFile(path, options):
        pass
    with VerdictFile(path, other, overwrite=True) as file:
        assert file.needs(key(1))


def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\nand more\n")
    with pytest.raises(MagistrateError, match="line 1 is not a Magistrate verdict"), VerdictFile(path, PRINT):
        pass
    assert path.read_text() == "my notes\nand more\n"


def test_a_file_of_one_unended_line_is_not_taken_for_torn(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text('{"mine": [1, 2, 3]}')
    with pytest.raises(MagistrateError, match="line 1 is not a Magistrate verdict"), VerdictFile(path, PRINT):
        pass
    assert path.read_text() == '{"mine": [1, 2, 3]}'


def test_overwriting_waits_until_there_is_something_to_write(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    judge(path, [1, 2])
    with VerdictFile(path, PRINT, overwrite=True) as file:
        assert ids(path) == ["1", "2"]
        assert file.needs(key(3))
        file.append(verdict(3))
        file.finish()
    assert ids(path) == ["3"]


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    with VerdictFile(path, PRINT), pytest.raises(MagistrateError, match="another run is writing"), VerdictFile(path, PRINT):
        pass


def test_a_full_disk_is_one_sentence_and_spoils_nothing(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"

    class FullDisk:
        """A file that takes half a line, then no more."""

        def __init__(self, file: object) -> None:
            self.file = file
            self.room = 100

        def write(self, data: bytes) -> int:
            if self.room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken, self.room = data[: self.room], 0
            return int(self.file.write(taken))  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    with VerdictFile(path, PRINT) as file:
        for number in (1, 2):
            file.needs(key(number))
        file.append(verdict(1))
        file._file = FullDisk(file._file)  # type: ignore[assignment]
        with pytest.raises(MagistrateError, match="the disk is full; verdicts written so far are safe"):
            file.append(verdict(2))
    assert ids(path) == ["1"]
    assert judge(path, [1, 2]) == [2]


@pytest.mark.parametrize("place", ["folder", "file/below"])
def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(MagistrateError, match=r"is a folder|cannot be written"), VerdictFile(tmp_path / place, PRINT):
        pass


def test_a_fingerprint_tells_sampling_and_greedy_ones_are_what_they_were() -> None:
    identity = EngineIdentity("vllm", "0.32.0", "tiny", "abc", "outlines")
    assert PRINT.decoding == {"temperature": 0, "expected": False, "think": 0}
    known = {
        "b9ae2e56f6efeec0": Decoding(),
        "47cba5b7cde561c5": Decoding(expected=True, think=7),
        "2c7aaaec95c7bdf9": SampledDecoding(temperature=0.7, seed=0),
    }
    assert {Fingerprint.of(LLMEval(), identity, decoding).digest: decoding for decoding in known.values()} == known
    assert Fingerprint.of(LLMEval(), identity, SampledDecoding(temperature=0.7, seed=1)).digest not in known


def line(number: int, **fields: object) -> str:
    return json.dumps(json.loads(verdict(number).to_json()) | fields) + "\n"


def test_fields_of_a_later_version_are_passed_over_and_missing_ones_have_their_defaults(tmp_path: Path) -> None:
    later = line(1, mood="calm", usage={"prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 2, "watts": 3})
    assert Verdict.from_json(later) == verdict(1)
    path = tmp_path / "v.jsonl"
    path.write_text(later)
    assert judge(path, [1]) == []
    assert path.read_text() == later, "what is not known here is kept"
    few = {name: json.loads(later)[name] for name in ("id", "judge", "status", "scores", "sample", "fingerprint")}
    read = Verdict.from_json(json.dumps(few))
    assert (read.usage, read.notes, read.recovered, read.expected, read.occurrence) == (Usage(), [], False, None, 1)
    for name in few:
        with pytest.raises(ValueError, match=f"`{name}`"):
            Verdict.from_json(json.dumps({other: value for other, value in few.items() if other != name}))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"status": "great"}, "field `status` must be 'scored' or 'unscored', not \"great\""),
        ({"scores": {"a": True}}, "field `scores.a` must be a number, a label or null, not true"),
        ({"scores": {"a": [1]}}, "field `scores.a` must be a number, a label or null, not a list"),
        ({"scores": {"a": float("nan")}}, "field `scores.a` must be a number"),
        ({"scores": None}, "a verdict whose `status` is scored has `scores`"),
        ({"status": "unscored", "reason": "why not"}, "whose `status` is unscored has a `reason` and no `scores`"),
        ({"status": "unscored", "scores": None}, "whose `status` is unscored has a `reason` and no `scores`"),
        ({"id": 7}, "field `id` must be a string, not 7"),
        ({"sample": "abc1"}, "field `sample` must have 32 digits, not 4"),
        ({"usage": {"prompt_tokens": "many"}}, "field `usage.prompt_tokens` must be"),
        ({"expected": {"a": {"expectation": 1.5}}}, "field `expected.a.entropy` is missing"),
        ({"scores": {"a": 99}}, "field `scores.a` is 99, but judge `llm-eval` scores 0 to 5"),
        ({"scores": {"a": 2.5}}, "field `scores.a` is 2.5, but judge `llm-eval` scores 0 to 5 in whole numbers"),
        ({"scores": {"a": "1"}}, 'field `scores.a` is "1", but judge `llm-eval` scores 0 to 5 in whole numbers'),
        ({"scores": {"a": None}}, "field `scores.a` is null, but judge"),
        ({"scores": {"a": 1, "b": 2}}, "field `scores` has `b`, which judge `llm-eval` does not score"),
        ({"expected": {"a": {"expectation": 9.5, "entropy": 0.1}}}, "field `expected.a` is 9.5, but judge"),
        ({"scores": {}}, "field `scores` lacks `a`, which judge `llm-eval` scores"),
        ({"judge": "pairwise"}, 'field `judge` is "pairwise", but its fingerprint is of judge `llm-eval`'),
    ],
)
def test_a_line_edited_by_hand_is_refused_by_its_field(tmp_path: Path, fields: dict[str, object], complaint: str) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(line(1) + line(2, **fields))
    before = path.read_bytes()
    with pytest.raises(MagistrateError, match="line 2") as caught, VerdictFile(path, PRINT, LLMEval(["a"])):
        pass
    assert complaint in str(caught.value)
    assert "correct the line, or delete it to have its sample judged again" in str(caught.value)
    assert path.read_bytes() == before


def test_a_judge_edited_by_hand_is_refused_by_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    with VerdictFile(path, PRINT) as file:
        file.finish()
    path.write_text(line(1) + line(2, judge="pairwise"))
    with pytest.raises(
        MagistrateError, match=r'v.jsonl line 2: field `judge` is "pairwise", but its fingerprint is of judge `llm-eval`'
    ):
        list(numbered_verdicts(path))
    sidecar(path).unlink()
    assert len(list(numbered_verdicts(path))) == 2, "nothing says whose they are"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\n", "line 2 is not a Magistrate verdict: it is empty; correct"),
        (" \r\n", "line 2 is not a Magistrate verdict: it is empty; correct"),
        ('{"id": \n', "line 2 is not a Magistrate verdict: it is not JSON: Expecting value at column 7; correct"),
        (
            "\ufeff" + "{}\n",
            "line 2 is not a Magistrate verdict: it begins with a byte order mark; save the file as UTF-8 without one",
        ),
        ("[" * 100_000 + "\n", "line 2 is not a Magistrate verdict: it is nested too deeply; correct"),
    ],
)
def test_a_line_that_is_none_is_named_once(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(line(1) + text + line(2))
    with pytest.raises(MagistrateError) as caught, VerdictFile(path, PRINT):
        pass
    assert complaint in str(caught.value)
    if text.strip():
        with pytest.raises(MagistrateError, match="line 2 is not a Magistrate verdict") as caught:
            list(numbered_verdicts(path))
        assert "judge" not in str(caught.value)
        assert str(caught.value).count("line ") == 1
    else:
        assert [number for number, _ in numbered_verdicts(path)] == [1, 3]


@pytest.mark.parametrize("order", [[1, 2], [2, 1]])
def test_an_id_edited_by_hand_is_refused_by_its_line(tmp_path: Path, order: list[int]) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(line(1) + line(2, id="mine"))
    with VerdictFile(path, PRINT) as file:
        assert [file.needs(key(number), name=str(number)) for number in order] == [False, False]
        with pytest.raises(MagistrateError, match="another id; correct the line"):
            file.finish()
    path.write_text(line(1) + line(2))
    with VerdictFile(path, PRINT) as file:
        assert [file.needs(key(number), name=str(number)) for number in order] == [False, False]
        assert file.finish() is None
    assert ids(path) == [str(number) for number in order]


@pytest.mark.parametrize("text", ["[" * 100_000, "5", "{"])
def test_fingerprints_that_are_none_are_passed_over(tmp_path: Path, text: str) -> None:
    judge(tmp_path / "v.jsonl", [1])
    (tmp_path / "v.jsonl.fingerprints.json").write_text(text)
    assert judge(tmp_path / "v.jsonl", [1]) == []


def test_a_run_that_writes_nothing_leaves_nothing(tmp_path: Path) -> None:
    path, there = tmp_path / "v.jsonl", tmp_path / "there.jsonl"
    there.touch()
    for one in (path, there):
        with pytest.raises(ZeroDivisionError), VerdictFile(one, PRINT):
            1 / 0  # noqa: B018
    assert {file.name for file in tmp_path.iterdir()} == {"there.jsonl", "there.jsonl.fingerprints.json"}
    assert judge(path, [1]) == [1]
    assert ids(path) == ["1"]


def test_a_key_twice_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="has the key `status` twice"):
        Verdict.from_json(line(1).replace("{", '{"status": "unscored", ', 1))


def other_verdict(number: int, kind: int, occurrence: int = 1) -> Verdict:
    """A verdict on the sample of this number, made of something else."""
    return replace(verdict(number), sample=key(1000 * kind + number), occurrence=occurrence)


def run(path: Path, wanted: list[Verdict], *, whole: bool) -> tuple[list[str], Path | None]:
    """A run over samples that have these verdicts. Returns the samples it had to judge, and the file of those left over."""
    with VerdictFile(path, PRINT) as file:
        needed = [one for one in wanted if file.needs(one.sample, one.occurrence)]
        for one in needed:
            file.append(one)
        leftover = file.finish(whole=whole)
        assert list(file.of_input()) == wanted, "the run's own verdicts, in its order"
    return [one.id for one in needed], leftover


@pytest.mark.parametrize("whole", [True, False])
def test_a_sample_that_holds_something_else_now_has_one_verdict(tmp_path: Path, whole: bool) -> None:
    path = tmp_path / "v.jsonl"
    numbers = [1, 2, 3]
    run(path, [other_verdict(number, 1) for number in numbers], whole=True)
    first = path.read_text()
    needed, leftover = run(path, [other_verdict(number, 2) for number in numbers[:2]], whole=whole)
    assert needed == ["1", "2"]
    assert leftover == tmp_path / "v.leftover.jsonl"
    assert ids(path) == (["1", "2"] if whole else ["1", "2", "3"]), "the third was not asked about, and stays"
    assert leftover.read_text() == "".join(first.splitlines(keepends=True)[: 3 if whole else 2])


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_a_file_with_every_id_twice_is_healed(tmp_path: Path, whole: bool, turned: bool) -> None:
    path = tmp_path / "v.jsonl"
    old, new = ([other_verdict(number, kind) for number in range(5)] for kind in (1, 2))
    path.write_text("".join(one.to_json() + "\n" for one in ([*new, *old] if turned else [*old, *new])))
    needed, leftover = run(path, new, whole=whole)
    assert needed == []
    assert leftover is not None
    assert ids(path) == ids(leftover) == ["0", "1", "2", "3", "4"]
    assert run(path, new, whole=whole) == ([], None)


def test_verdicts_of_one_id_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    rows = [other_verdict(7, kind, kind) for kind in (1, 2, 3)]
    run(path, rows, whole=True)
    assert [json.loads(one).get("occurrence") for one in path.read_text().splitlines()] == [None, 2, 3]
    assert run(path, rows[:1], whole=False) == ([], None)
    assert len(ids(path)) == 3, "rows of the id that were not asked about keep their verdicts"
    changed = [rows[0], other_verdict(7, 9, 2)]
    needed, leftover = run(path, changed, whole=False)
    assert (needed, leftover and ids(leftover)) == (["7"], ["7"])
    assert list(map(Verdict.from_json, path.read_text().splitlines())) == [*changed, rows[2]]


def test_an_earlier_file_is_told_apart_when_it_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    rows = [other_verdict(7, kind, kind) for kind in (1, 2)]
    path.write_text("".join(replace(one, occurrence=1).to_json() + "\n" for one in rows))
    assert run(path, rows, whole=True) == ([], None)
    turned = [replace(rows[1], occurrence=1), replace(rows[0], occurrence=2)]
    assert run(path, turned, whole=True) == ([], None)


def test_lines_are_put_in_order_where_many_keys_are_equal(tmp_path: Path) -> None:
    """As Python's own sorting has it, keys with zeros at either end among them."""
    path = tmp_path / "v.jsonl"
    rng = random.Random(3)
    marks = [rng.choice(["00" * 16, "00" * 15 + "01", "01" + "00" * 15, "ff" * 16, key(300)]) for _ in range(200)]
    one = [replace(verdict(number), sample=mark, scores={"a": number % 6}) for number, mark in enumerate(marks)]
    with VerdictFile(path, PRINT) as file:
        for entry in one:
            assert file.needs(entry.sample)
        for entry in rng.sample(one, len(one)):
            file.append(entry)
        file.finish()
    assert [json.loads(found)["sample"] for found in path.read_text().splitlines()] == marks
