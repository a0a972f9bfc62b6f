from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pydantic import ValidationError

from judges.affinity import Affinity
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.rubric import Rubric
from server.judge_spec import CACHED_JUDGES, LARGEST_RUBRIC, MOST_VALUES, JudgeSpec, judge_of
from tests.judges.templates.own import CRITERIA, RATING

RUBRIC = """\
name = "kind"
fields = ["reply"]

[[metric]]
name = "kind"
description = "Is the reply kind?"
scale = "1-5"
"""

IN_YAML = """\
name: kind
fields: [reply]
metric:
- name: kind
  description: Is the reply kind?
  scale: 1-5
"""

SECONDS = 15.0
"""What no text of the size that is let in may take, on a slow machine with others at work. Without limits it is minutes."""


def ask(**fields: Any) -> Judge:
    return judge_of(JudgeSpec(**fields))


def complaint(**fields: Any) -> str:
    with pytest.raises(MagistrateError) as caught:
        ask(**fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "same"),
    [
        ("llm-eval", {}, LLMEval()),
        ("llm-eval", {"scale": "0-100", "use_reference": False}, LLMEval(scale="0-100", use_reference=False)),
        ("llm-eval", {"metrics": {"fun": "how funny", "wit": ""}}, LLMEval({"fun": "how funny", "wit": ""})),
        ("llm-eval", {"metrics": ["fun", "wit"]}, LLMEval(["fun", "wit"])),
        (
            "grouse",
            {"per_metric": True, "prompts": "card", "max_tokens": 64},
            Grouse(per_metric=True, prompts="card", max_tokens=64),
        ),
        ("pairwise", {"orders": "given", "reasoning": False}, Pairwise(orders="given", reasoning=False)),
        ("affinity", {"attributes": ["Food", "Travel"], "kind": "subtask"}, Affinity(["Food", "Travel"], kind="subtask")),
    ],
)
def test_options_are_taken_as_json(name: str, options: Mapping[str, Any], same: Judge) -> None:
    judge = ask(judge=name, options=options)
    assert type(judge) is type(same)
    assert judge.version == same.version
    assert [form.max_tokens for form in judge.forms] == [form.max_tokens for form in same.forms]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("dredd", {}, "there is no judge `dredd`; there are llm-eval, grouse, pairwise"),
        ("rubric", {}, "put the text of one in `rubric`"),
        ("llm-eval", {"temperature": 1}, "judge `llm-eval` has no option `temperature`; it has: metrics, scale, use_reference"),
        ("llm-eval", {"scale": "0-7"}, "option `scale` of judge `llm-eval` must be one of 0-5, 0-100"),
        ("llm-eval", {"scale": ["0-5"]}, "must be one of 0-5, 0-100"),
        ("llm-eval", {"use_reference": "yes"}, "option `use_reference` of judge `llm-eval` must be true or false"),
        ("llm-eval", {"use_reference": 1}, "must be true or false"),
        ("llm-eval", {"use_reference": None}, "must be true or false"),
        ("llm-eval", {"metrics": "fun"}, "must be a list of strings or an object of strings"),
        ("llm-eval", {"metrics": {"fun": 1}}, "must be a list of strings or an object of strings"),
        ("llm-eval", {"metrics": {"fun": {"fun": "x"}}}, "must be a list of strings or an object of strings"),
        ("llm-eval", {"metrics": []}, "needs at least one metric"),
        ("llm-eval", {"metrics": ["a b"]}, "cannot name a metric"),
        ("llm-eval", {"metrics": {"fun": "\ud800"}}, "must be a list of strings or an object of strings"),
        ("llm-eval", {"\ud800": "\ud800"}, "judge `llm-eval` has no option"),
        ("shrink", {"kind": "domain", "instruction": "\ud800"}, "holds half of a surrogate pair"),
        (
            "llm-eval",
            {"metrics": [f"m{number}" for number in range(MOST_VALUES + 1)]},
            "is a list of 121; over HTTP it may hold 120",
        ),
        ("llm-eval", {"metrics": {"fun": "x" * 20_001}}, "a text of more than 20,000 characters"),
        ("grouse", {"max_tokens": 0}, "must be a whole number from 1 to 1,000,000"),
        ("grouse", {"max_tokens": True}, "must be a whole number from 1"),
        ("grouse", {"max_tokens": 64.0}, "must be a whole number from 1"),
        ("grouse", {"max_tokens": "64"}, "must be a whole number from 1"),
        ("grouse", {"max_tokens": 10**4000}, "must be a whole number from 1"),
        ("shrink", {"factor": float("nan")}, "must be a number from 0 to 1,000,000"),
        ("shrink", {"factor": 10**400}, "must be a number"),
        ("shrink", {"factor": 1}, "must be more than 1"),
        ("affinity", {}, "judge `affinity` needs the option `attributes`: give it in `options`"),
        ("affinity", {"attributes": ["Food", 1]}, "option `attributes` of judge `affinity` must be a list of strings"),
        ("affinity", {"attributes": {"Food": "x"}}, "must be a list of strings"),
        ("affinity", {"attributes": ["Food", "Food"]}, "`Food` is named twice"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(name: str, options: Mapping[str, Any], words: str) -> None:
    assert words in complaint(judge=name, options=options)


def test_no_name_and_no_option_opens_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(RUBRIC)
    (tmp_path / "names").write_text("Food\nTravel\n")
    for name in (str(tmp_path / "mine.toml"), "../../etc/passwd.toml", "/etc/passwd", "mine.yaml", "."):
        assert complaint(judge=name).startswith(f"there is no judge `{name}`")
    assert "must be a list of strings" in complaint(judge="affinity", options={"attributes": str(tmp_path / "names")})
    in_list = ask(judge="affinity", options={"attributes": [str(tmp_path / "names")]})
    assert isinstance(in_list, Affinity)
    assert in_list.attributes == (str(tmp_path / "names"),), "a path is a name like any other"
    assert "is not TOML" in complaint(rubric=str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    "fields",
    [
        {"judge": 7},
        {"judge": "x" * 101},
        {"options": []},
        {"options": "scale=0-5"},
        {"think": -1},
        {"think": True},
        {"think": "5"},
        {"think": 10**9},
        {"expected": "yes"},
        {"rubric": {"name": "kind"}},
        {"rubric": RUBRIC, "rubric_format": "json"},
        {"temperature": 0},
    ],
)
def test_a_request_of_another_shape_is_refused(fields: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JudgeSpec(**fields)


@pytest.mark.parametrize(
    ("text", "language"), [(RUBRIC, "toml"), (IN_YAML, "yaml"), ("\ufeff" + RUBRIC.replace("\n", "\r\n"), "toml")]
)
def test_a_rubric_comes_as_its_text(tmp_path: Path, text: str, language: str) -> None:
    (tmp_path / "kind.toml").write_text(RUBRIC)
    judge = ask(rubric=text, rubric_format=language, options={"reasoning": False})
    assert isinstance(judge, Rubric)
    assert judge.version == Rubric.load(tmp_path / "kind.toml", reasoning=False).version != ask(rubric=RUBRIC).version


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"judge": "grouse", "rubric": RUBRIC}, "give either `judge` or `rubric`, not both"),
        ({"rubric": ""}, "the rubric: name: is missing (and 2 more problems)"),
        ({"rubric": "name ="}, "the rubric, line 1: is not TOML"),
        ({"rubric": IN_YAML}, "the rubric, line 1: is not TOML"),
        ({"rubric": RUBRIC.replace("1-5", "5-1")}, "the rubric, line 7: metric.kind.scale: the range `5-1` must go from a lower"),
        ({"rubric": RUBRIC.replace("scale", "sacle")}, "the rubric, line 4: metric.kind.scale: is missing (and 1 more problem)"),
        ({"rubric": RUBRIC.replace('"kind"', '"grouse"', 1)}, "the rubric: `grouse` is the name of another judge"),
        ({"rubric": RUBRIC.replace('"kind"', '"jury"', 1)}, "the rubric: `jury` is the name of another judge"),
        ({"rubric": RUBRIC, "options": {"reasoning": "no"}}, "option `reasoning` of judge `rubric` must be true or false"),
        ({"rubric": RUBRIC, "options": {"file": "/etc/passwd"}}, "judge `rubric` has no option `file`; it has: reasoning"),
        ({"rubric": "#" * (LARGEST_RUBRIC + 1)}, "the rubric has 262,145 bytes; it may have 262,144"),
        ({}, "no judge is given: name one in `judge` (llm-eval, grouse"),
    ],
)
def test_what_is_wrong_with_a_rubric_is_told_by_line(fields: Mapping[str, Any], words: str) -> None:
    for _ in range(2):  # the second time from what was kept
        assert complaint(**fields).startswith(words)


def test_a_request_without_a_judge_has_the_usual_one() -> None:
    assert judge_of(JudgeSpec(), "grouse").name == "grouse"
    assert judge_of(JudgeSpec(judge="pairwise"), "grouse").name == "pairwise"
    assert judge_of(JudgeSpec(rubric=RUBRIC), "grouse").name == "kind"


BOMBS = {
    "laughs": (
        "yaml",
        "a: &a [l, l]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    ),
    "merge": ("yaml", "a: &a {x: 1}\nb: {<<: *a}\n"),
    "tags": ("yaml", 'name: !!python/object/apply:os.system ["touch /tmp/x"]\n'),
    "brackets": ("yaml", "[" * LARGEST_RUBRIC),
    "brackets behind a star": ("yaml", 'a: "*"\nb: ' + "[" * 200_000),
    "braces": ("yaml", "{a: " * 50_000),
    "dashes": ("yaml", "- " * 100_000),
    "base 60": ("yaml", IN_YAML + "max_tokens: 1" + ":1" * 100_000),
    "many values": ("yaml", "a: [" + "b, " * 80_000 + "b]"),
    "long key": ("yaml", f"? 0x{'f' * 5000}\n: 1\n"),
    "dotted key": ("toml", "a." * 100_000 + "a = 1"),
    "dotted table": ("toml", "[" + "a . " * 50_000 + "a]"),
    "arrays": ("toml", "a = " + "[" * LARGEST_RUBRIC),
    "tables": ("toml", "a = " + "{a = " * 50_000),
    "whole number": ("toml", RUBRIC.replace("[[", f"max_tokens = 0x{'f' * 200_000}\n[[")),
    "score": ("toml", f'{RUBRIC}[[example]]\nsample = {{reply = "x"}}\nreasoning = "r"\nscores = {{kind = 0x{"f" * 5000}}}\n'),
    "brackets in text": ("toml", "a = '''\n" + "]\n" * 100_000 + "'''\nb = 1"),
    "unknown keys": ("toml", "".join(f"k{number} = 1\n" for number in range(20_000))),
    "metrics": ("toml", RUBRIC + "[[metric]]\n" * 20_000),
    "fields": ("toml", f"fields = [{', '.join(f'{chr(34)}{number}{chr(34)}' for number in range(25_000))}]\n"),
    "levels": ("toml", RUBRIC + "[metric.levels]\n" + "".join(f'{number} = "x"\n' for number in range(10, 15_000))),
    "room": ("toml", RUBRIC.replace("[[", "max_tokens = 9223372036854775807\n[[")),
    "surrogate": ("toml", RUBRIC.replace("Is the", "\ud800")),
    "surrogate in YAML": ("yaml", IN_YAML.replace("Is the", "\ud800")),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_hostile_rubric_is_refused_in_time(name: str) -> None:
    language, text = BOMBS[name]
    begun = time.monotonic()
    assert complaint(rubric=text, rubric_format=language).startswith("the rubric")
    assert time.monotonic() - begun < SECONDS


def test_equal_requests_share_a_judge() -> None:
    first = ask(judge="pairwise", options={"orders": "given", "reasoning": False})
    assert ask(judge="pairwise", options={"reasoning": False, "orders": "given"}) is first
    assert ask(judge="pairwise", options={"orders": "given"}) is not first
    assert ask(rubric=RUBRIC) is ask(rubric=RUBRIC, expected=True, think=5)
    one, other = ({"metrics": dict.fromkeys(names, "")} for names in ("ab", "ba"))
    assert ask(judge="llm-eval", options=one).version != ask(judge="llm-eval", options=other).version, "order is the answer's"


def test_judges_asked_for_long_ago_are_forgotten() -> None:
    first = ask(judge="insight", options={"most": 1})
    for most in range(2, CACHED_JUDGES + 1):
        ask(judge="insight", options={"most": most})
    assert ask(judge="insight", options={"most": 1}) is first
    ask(judge="insight", options={"most": CACHED_JUDGES + 1})
    ask(judge="insight", options={"most": CACHED_JUDGES + 2})
    assert ask(judge="insight", options={"most": 1}) is first, "asked for lately"
    for most in range(2, CACHED_JUDGES + 2):
        ask(judge="insight", options={"most": most})
    assert ask(judge="insight", options={"most": 1}) is not first


def test_threads_that_want_one_judge_get_one() -> None:
    names = [f"attribute {number}" for number in range(40)]
    barrier = Barrier(8)

    def wanted(_: int) -> Judge:
        barrier.wait()
        return ask(judge="affinity", options={"attributes": names})

    with ThreadPoolExecutor(8) as threads:
        assert len(set(map(id, threads.map(wanted, range(8))))) == 1


def test_threads_that_want_a_broken_judge_are_all_told() -> None:
    text = RUBRIC.replace("1-5", "9-1") + "# for threads\n"
    barrier = Barrier(8)

    def wanted(_: int) -> str:
        barrier.wait()
        return complaint(rubric=text)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(wanted, range(8)))) == 1


def test_a_template_is_sent_as_a_rubric_is() -> None:
    judge = judge_of(JudgeSpec(rubric=RATING, options={"criteria": CRITERIA}))
    assert judge.name == "tea-rating"
    assert list(judge.levels) == ["fits"]
    assert judge_of(JudgeSpec(rubric=RATING, options={"criteria": CRITERIA})) is judge
    with pytest.raises(MagistrateError, match="needs the option `criteria`"):
        judge_of(JudgeSpec(rubric=RATING))
    with pytest.raises(MagistrateError, match="the template, line 6: score: `points` is not a part of the answer"):
        judge_of(JudgeSpec(rubric=RATING.replace('score = "score"', 'score = "points"')))
    with pytest.raises(MagistrateError, match="`rise` is the name of another judge"):
        judge_of(JudgeSpec(rubric=RATING.replace("tea-rating", "rise"), options={"criteria": CRITERIA}))


def test_a_sent_template_reads_no_file_of_the_server() -> None:
    source = f'[[source]]\nrepository = "a/b"\ncommit = "{"0" * 40}"\npath = "x"\nsha256 = "{"0" * 64}"\nlicence = "x"\n'
    with pytest.raises(MagistrateError, match="a template that is sent has its texts in it"):
        judge_of(JudgeSpec(rubric=RATING + source, options={"criteria": CRITERIA}))
    with pytest.raises(MagistrateError, match=r"has no criteria `/etc/hosts.toml`"):
        judge_of(JudgeSpec(rubric=RATING, options={"criteria": "/etc/hosts.toml"}))


def test_a_judge_whose_authors_file_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MagistrateError, match="magistrate judges fetch rise"):
        judge_of(JudgeSpec(judge="rise"))
