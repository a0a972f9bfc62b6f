from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.data.located import MOST_BYTES, Problem
from judges.errors import MagistrateError
from judges.rubric import check_rubric, load_rubric
from judges.rubric_file import RubricFile

TOML = """\
# How good is a summary?
name = "summary-quality"
instructions = "You judge summaries."
fields = ["dialogue", "summary"]
max_tokens = 400

[[metric]]
name = "consistency"
description = '''
Does the summary only say
what the dialogue [says]?
'''
scale = "1-5"
[metric.levels]
1 = "Invented."
5 = "All of it is there."

[[metric]]
name = "fluency"
description = "Is it good English?"
scale = ["bad", "fair", "good"]
ordered = true
optional = true

[[example]]
sample = { dialogue = ["hi", { role = "B", content = "ho" }], summary = "They greet." }
reasoning = "It is all there."
[example.scores]
consistency = 5
fluency = "good"
"""

YAML = """\
# How good is a summary?
name: summary-quality
instructions: You judge summaries.
fields: [dialogue, summary]
max_tokens: 400

metric:
  - name: consistency
    description: |
      Does the summary only say
      what the dialogue [says]?
    scale: 1-5
    levels:
      1: Invented.
      5: All of it is there.
  - name: fluency
    description: Is it good English?
    scale: [bad, fair, good]
    ordered: true
    optional: true

example:
  - sample: {dialogue: [hi, {role: B, content: ho}], summary: They greet.}
    reasoning: It is all there.
    scores:
      consistency: 5
      fluency: good
"""

HERE = "# here"
SAMPLE = 'sample = { dialogue = ["hi", { role = "B", content = "ho" }], summary = "They greet." }'

BROKEN = {
    "unknown key": (
        ("max_tokens = 400", "max_token = 400 # here"),
        ("max_tokens: 400", "max_token: 400 # here"),
        "max_token: is not a key of a rubric file; did you mean `max_tokens`?",
    ),
    "unknown key of a metric": (
        ("ordered = true", "orderd = true # here"),
        ("ordered: true", "orderd: true # here"),
        "metric.fluency.orderd: is not a key of a rubric file; did you mean `ordered`?",
    ),
    "missing key": (('name = "summary-quality"\n', ""), ("name: summary-quality\n", ""), "name: is missing"),
    "missing key of a metric": (
        ('[[metric]]\nname = "fluency"\ndescription = "Is it good English?"', '[[metric]] # here\nname = "fluency"'),
        ("- name: fluency\n    description: Is it good English?", "- name: fluency # here"),
        "metric.fluency.description: is missing",
    ),
    "wrong type": (
        ('description = "Is it good English?"', "description = 7 # here"),
        ("description: Is it good English?", "description: 7 # here"),
        "metric.fluency.description: must be a string, not a number: put it in quotes",
    ),
    "a word for a flag": (
        ("optional = true", 'optional = "yes" # here'),
        ("optional: true", "optional: 'yes' # here"),
        "metric.fluency.optional: must be true or false, not a string",
    ),
    "a fraction": (
        ("max_tokens = 400", "max_tokens = 400.5 # here"),
        ("max_tokens: 400", "max_tokens: 400.5 # here"),
        "max_tokens: must be a whole number, not 400.5",
    ),
    "not a number": (
        ("max_tokens = 400", "max_tokens = nan # here"),
        ("max_tokens: 400", "max_tokens: .nan # here"),
        "max_tokens: must be a whole number, not nan",
    ),
    "too little room": (
        ("max_tokens = 400", "max_tokens = 53 # here"),
        ("max_tokens: 400", "max_tokens: 53 # here"),
        "max_tokens: 53 is too small: an answer's scores may need 54",
    ),
    "bad name": (
        ('name = "summary-quality"', 'name = "Summary" # here'),
        ("name: summary-quality", "name: Summary # here"),
        "name: `Summary` cannot be a name: use a small letter, then small letters, digits or `-`",
    ),
    "bad metric name": (
        ('name = "fluency"', 'name = "1st" # here'),
        ("- name: fluency", "- name: 1st # here"),
        "metric.1st.name: `1st` cannot be a name: use a letter, then letters, digits, `_` or `-`",
    ),
    "metric called reasoning": (
        ('name = "fluency"', 'name = "reasoning" # here'),
        ("- name: fluency", "- name: reasoning # here"),
        "metric.reasoning.name: a metric cannot be called `reasoning` while reasoning is on",
    ),
    "metric defined twice": (
        ('name = "fluency"', 'name = "consistency" # here'),
        ("- name: fluency", "- name: consistency # here"),
        "metric.consistency.name: metric `consistency` is defined twice",
    ),
    "empty text": (
        ('instructions = "You judge summaries."', 'instructions = " " # here'),
        ("instructions: You judge summaries.", "instructions: ' ' # here"),
        "instructions: must not be empty",
    ),
    "no field": (
        ('fields = ["dialogue", "summary"]', "fields = [] # here"),
        ("fields: [dialogue, summary]", "fields: [] # here"),
        "fields: must list at least one",
    ),
    "field listed twice": (
        ('fields = ["dialogue", "summary"]', 'fields = [ # here\n"summary", "dialogue", "summary"]'),
        ("fields: [dialogue, summary]", "fields: # here\n  - summary\n  - dialogue\n  - summary"),
        "fields: `summary` is listed twice",
    ),
    "scale without an end": (
        ('scale = "1-5"', 'scale = "1-x" # here'),
        ("scale: 1-5", "scale: 1-x # here"),
        'metric.consistency.scale: unknown scale `1-x`: use a range such as "1-5", a list of labels or "pass/fail"',
    ),
    "scale upside down": (
        ('scale = "1-5"', 'scale = "5-1" # here'),
        ("scale: 1-5", "scale: 5-1 # here"),
        "metric.consistency.scale: the range `5-1` must go from a lower number to a higher one",
    ),
    "scale too long": (
        ('scale = "1-5"', 'scale = "0-101" # here'),
        ("scale: 1-5", "scale: 0-101 # here"),
        "metric.consistency.scale: the range `0-101` has more than 101 scores",
    ),
    "scale as a list of numbers": (
        ('scale = "1-5"', "scale = [1, 5] # here"),
        ("scale: 1-5", "scale: [1, 5] # here"),
        'metric.consistency.scale: label 1 is a number: put it in quotes, or write a range such as "1-5"',
    ),
    "one label": (
        ('scale = ["bad", "fair", "good"]', 'scale = ["good"] # here'),
        ("scale: [bad, fair, good]", "scale: [good] # here"),
        "metric.fluency.scale: must list 2 to 101 labels, not 1",
    ),
    "label listed twice": (
        ('scale = ["bad", "fair", "good"]', 'scale = ["good", "good"] # here'),
        ("scale: [bad, fair, good]", "scale: [good, good] # here"),
        "metric.fluency.scale: label `good` is listed twice",
    ),
    "label with a space": (
        ('scale = ["bad", "fair", "good"]', 'scale = ["good", " good"] # here'),
        ("scale: [bad, fair, good]", "scale: [good, ' good'] # here"),
        "metric.fluency.scale: label 2 begins or ends with white space, which a reader of the prompt does not see",
    ),
    "empty label": (
        ('scale = ["bad", "fair", "good"]', 'scale = ["good", ""] # here'),
        ("scale: [bad, fair, good]", "scale: [good, ''] # here"),
        "metric.fluency.scale: label 2 is empty",
    ),
    "boolean label": (
        ('scale = ["bad", "fair", "good"]', "scale = [true, false] # here"),
        ("scale: [bad, fair, good]", "scale: [yes, no] # here"),
        "metric.fluency.scale: label 1 is a boolean: put it in quotes, as YAML reads yes, no, on and off as booleans",
    ),
    "ordered range": (
        ('scale = ["bad", "fair", "good"]\nordered = true', 'scale = "0-9"\nordered = true # here'),
        ("scale: [bad, fair, good]\n    ordered: true", "scale: 0-9\n    ordered: true # here"),
        "metric.fluency.ordered: is only for a list of labels",
    ),
    "level off the scale": (
        ('5 = "All of it', '6 = "All" # here\n5 = "All of it'),
        ("5: All of it", "6: All # here\n      5: All of it"),
        "metric.consistency.levels.6: is not a score of this metric: use 1 to 5",
    ),
    "score off the scale": (
        ("consistency = 5", "consistency = 6 # here"),
        ("consistency: 5", "consistency: 6 # here"),
        "example.1.scores.consistency: 6 is not a score of this metric: use 1 to 5",
    ),
    "true is not 1": (
        ("consistency = 5", "consistency = true # here"),
        ("consistency: 5", "consistency: yes # here"),
        "example.1.scores.consistency: True is not a score of this metric: use 1 to 5",
    ),
    "score missing": (
        ("[example.scores]\nconsistency = 5", "[example.scores] # here"),
        ("scores:\n      consistency: 5", "scores: # here"),
        "example.1.scores.consistency: is missing",
    ),
    "score of an unknown metric": (
        ('fluency = "good"', 'fluent = "good" # here'),
        ("fluency: good", "fluent: good # here"),
        "example.1.scores.fluent: is not a metric of this rubric; did you mean `fluency`?",
    ),
    "sample field unknown": (
        (SAMPLE, SAMPLE.replace("}], ", '}], topic = "x", ') + HERE),
        ("summary: They greet.}", "summary: They greet., topic: x} # here"),
        "example.1.sample.topic: is not one of this rubric's fields",
    ),
    "sample field missing": (
        (SAMPLE, 'sample = { dialogue = "hi" } # here'),
        (", summary: They greet.}", "} # here"),
        "example.1.sample.summary: is missing",
    ),
    "sample field of a wrong type": (
        (SAMPLE, 'sample = { dialogue = "hi", summary = 3 } # here'),
        ("summary: They greet.}", "summary: 3} # here"),
        "example.1.sample.summary: must be a string or a list of turns, not a number",
    ),
    "reasons missing": (
        ("[[example]]\n" + SAMPLE + '\nreasoning = "It is all there."', "[[example]] # here\n" + SAMPLE),
        ("They greet.}\n    reasoning: It is all there.", "They greet.} # here"),
        "example.1.reasoning: is missing: the answers of this rubric start with reasons",
    ),
    "reasons forbidden": (
        ('max_tokens = 400|reasoning = "It is all there."', 'reasoning = false|reasoning = "It is all there." # here'),
        ("max_tokens: 400|reasoning: It is all there.", "reasoning: false|reasoning: It is all there. # here"),
        "example.1.reasoning: is not allowed: this rubric has `reasoning = false`",
    ),
}


def write(folder: Path, text: str, suffix: str = ".toml") -> Path:
    path = folder / f"rubric{suffix}"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def edited(text: str, edit: tuple[str, str]) -> str:
    for old, new in zip(edit[0].split("|"), edit[1].split("|"), strict=True):
        assert text.count(old) == 1, f"{old} must stand once in the rubric"
        text = text.replace(old, new)
    return text


def marked_line(text: str) -> int | None:
    return next((number for number, line in enumerate(text.split("\n"), start=1) if line.endswith(HERE)), None)


def test_toml_and_yaml_hold_the_same_rubric(tmp_path: Path) -> None:
    rubric = load_rubric(write(tmp_path, TOML))
    assert rubric == load_rubric(write(tmp_path, YAML, ".yaml")) == load_rubric(write(tmp_path, YAML, ".yml"))
    assert rubric.name == "summary-quality"
    assert rubric.fields == ("dialogue", "summary")
    assert rubric.reasoning
    assert [metric.legal for metric in rubric.metrics] == [(1, 2, 3, 4, 5), ("bad", "fair", "good")]
    assert rubric.metrics[0].description == "Does the summary only say\nwhat the dialogue [says]?"
    assert rubric.metrics[0].levels == {"1": "Invented.", "5": "All of it is there."}
    assert rubric.examples[0].scores == {"consistency": 5, "fluency": "good"}


def test_a_file_in_order_has_no_problem(tmp_path: Path) -> None:
    for text, suffix in ((TOML, ".toml"), (YAML, ".yaml"), ("\ufeff" + TOML.replace("\n", "\r\n"), ".toml")):
        assert check_rubric(write(tmp_path, text, suffix)) == []


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("suffix", [".toml", ".yaml"])
def test_each_fault_is_told_once_with_its_line(tmp_path: Path, case: str, suffix: str) -> None:
    in_toml, in_yaml, message = BROKEN[case]
    text = edited(TOML, in_toml) if suffix == ".toml" else edited(YAML, in_yaml)
    problems = [problem for problem in check_rubric(write(tmp_path, text, suffix)) if problem.message == message]
    assert problems == [Problem(marked_line(text), message)]


def test_all_that_is_wrong_is_told_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = TOML
    for case in ("wrong type", "scale upside down", "field listed twice", "sample field missing", "unknown key"):
        text = edited(text, BROKEN[case][0])
    problems = check_rubric(write(tmp_path, text))
    marked = [number for number, line in enumerate(text.split("\n"), start=1) if line.endswith(HERE)]
    assert [problem.line for problem in problems] == marked
    assert len(marked) == 5


def test_the_first_problem_is_one_sentence_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, edited(TOML, BROKEN["scale upside down"][0]))
    with pytest.raises(MagistrateError) as caught:
        load_rubric(path)
    message = "metric.consistency.scale: the range `5-1` must go from a lower number to a higher one"
    assert str(caught.value) == f"{path} line 13: {message}"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    latin = tmp_path / "latin.toml"
    latin.write_bytes("# one\n# gr\xf6\xdfe\n".encode("latin-1"))
    large = write(tmp_path, "#" * (MOST_BYTES + 1))
    told = {path.name: check_rubric(path) for path in (tmp_path / "none.toml", latin, large, tmp_path / "rubric.json")}
    assert told == {
        "none.toml": [Problem(None, "cannot be read: No such file or directory")],
        "latin.toml": [Problem(2, "is not UTF-8 text")],
        "rubric.toml": [Problem(None, "is larger than 1,000,000 bytes, too large to be read")],
        "rubric.json": [Problem(None, "the file must end in .toml, .yaml or .yml")],
    }
    with pytest.raises(MagistrateError, match=r"none\.toml: cannot be read"):
        load_rubric(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("suffix", "text", "line"),
    [
        (".toml", 'name = "a"\nfields = [', 2),
        (".toml", 'name = "a"\nfields = [] []\n', 2),
        (".toml", 'name = "a"\n\nname = "b"\n', 3),
        (".toml", 'name = "a"\nmax_tokens = 99' + "9" * 5000, None),
        (".toml", "name = " + "[" * 1000 + "]" * 1000, None),
        (".yaml", "name: a\nfields: [x\nmetric: []\n", 3),
        (".yaml", "name: a\n---\nname: b\n", 2),
        (".yaml", "name: a\n\tfields: b\n", 2),
        (".yaml", "name: a\nfields: \x07\n", 2),
        (".yaml", "name: &it a\nfields:\n - *it\n", 3),
        (".yaml", "name: " + "[" * 1000 + "]" * 1000, None),
        (".yaml", "- a\n", 1),
        (".yaml", "a\n", 1),
    ],
)
def test_a_file_that_cannot_be_parsed_has_one_problem(tmp_path: Path, suffix: str, text: str, line: int | None) -> None:
    (problem,) = check_rubric(write(tmp_path, text, suffix))
    assert problem.line == line


def test_an_empty_file_lacks_every_key_that_must_be_there(tmp_path: Path) -> None:
    for suffix in (".toml", ".yaml"):
        problems = check_rubric(write(tmp_path, "", suffix))
        assert [problem.message for problem in problems] == ["name: is missing", "fields: is missing", "metric: is missing"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_tokens: 400", "name: again", "name: is written twice"),
        ("      5: All", '      1: "again"\n      5: All', "metric.consistency.levels.1: is written twice"),
        ("instructions: You judge summaries.", "instructions: 2024-01-01", "instructions: is read as a timestamp"),
        ("instructions: You judge summaries.", "instructions: 2024-99-99", "instructions: is read as a timestamp"),
        ("instructions: You judge summaries.", "instructions: !!python/name:os.system x", "instructions: is read as a os.system"),
        ("      fluency: good", "      no: good", "example.1.scores: the key `no` is read as a boolean: put it in quotes"),
        ("    ordered: true", "    ? [a]\n    : b", "metric.fluency: has a key that is not text"),
        ("instructions: You judge summaries.", '"instructions": "\\uD800"', "instructions: holds a control character"),
    ],
)
def test_the_traps_of_yaml_are_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = YAML.replace(old, new)
    line = next(
        number for number, (before, now) in enumerate(zip(YAML.split("\n"), text.split("\n"), strict=False), 1) if before != now
    )
    problems = check_rubric(write(tmp_path, text, ".yaml"))
    assert line in {problem.line for problem in problems if problem.message.startswith(message)}


def test_yaml_says_null_where_toml_leaves_out(tmp_path: Path) -> None:
    in_yaml = load_rubric(write(tmp_path, YAML.replace("fluency: good", "fluency: null"), ".yaml"))
    in_toml = load_rubric(write(tmp_path, TOML.replace('fluency = "good"\n', "")))
    assert in_yaml.examples[0].scores.get("fluency", "") is None
    assert "fluency" not in in_toml.examples[0].scores
    text = YAML.replace("consistency: 5", "consistency: null # here")
    (problem,) = check_rubric(write(tmp_path, text, ".yaml"))
    assert problem == Problem(marked_line(text), "example.1.scores.consistency: is null, which is only for an optional metric")


def test_a_rubric_made_in_python_obeys_the_same_rules() -> None:
    metric = {"name": "m", "description": "d", "scale": "1-5", "levels": {"6": "x"}}
    with pytest.raises(ValueError, match=r"metric.0.levels.6: is not a score"):
        RubricFile.model_validate({"name": "a", "fields": ["x"], "metric": [metric]})


@given(
    st.lists(st.sampled_from(["", "# a [comment]", "  # '''", "\t"]), max_size=3),
    st.integers(0, 30),
    st.sampled_from(list(BROKEN)),
)
@settings(max_examples=60, deadline=None)
def test_blank_lines_and_comments_shift_the_line_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, more: list[str], where: int, case: str
) -> None:
    in_toml, _, message = BROKEN[case]
    lines = edited(TOML, in_toml).split("\n")
    boundaries = [number for number, (_, line) in enumerate(pairwise(lines), 1) if line[:1] in ("[", "#", "") or " = " in line]
    place = boundaries[where % len(boundaries)]
    text = "\n".join([*lines[:place], *more, *lines[place:]])
    problems = check_rubric(write(tmp_path_factory.mktemp("shifted"), text))
    assert Problem(marked_line(text), message) in problems


@given(st.text(max_size=60), st.integers(0, len(TOML)), st.integers(0, 80), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_text_has_its_problems_told_on_lines_that_are_there(
    tmp_path_factory: pytest.TempPathFactory, new: str, start: int, length: int, in_toml: bool
) -> None:
    base = TOML if in_toml else YAML
    text = (base[:start] + new + base[start + length :]).encode(errors="replace").decode()
    path = write(tmp_path_factory.mktemp("any"), text, ".toml" if in_toml else ".yaml")
    problems = check_rubric(path)
    last = len(text.splitlines()) + 1
    assert all(problem.line is None or 1 <= problem.line <= last for problem in problems)
    if not problems:
        assert isinstance(load_rubric(path), RubricFile)


@pytest.mark.parametrize(
    "statement",
    [
        'a = """\n] b\nc"""',
        "a = ['x',\n  'y', # ]\n\n  'z']",
        "a = {b = ['''\n]''',\n 'x']}",
        '"a"."b ]" = 1',
        "a = '''x''' # '''",
    ],
)
def test_a_statement_of_several_lines_does_not_hide_the_next(tmp_path: Path, statement: str) -> None:
    text = TOML.replace("max_tokens = 400", f"{statement}\nmax_tokens = false # here")
    problems = check_rubric(write(tmp_path, text))
    assert [(problem.line, problem.message.split(":")[0]) for problem in problems] == [
        (5, "a"),
        (marked_line(text), "max_tokens"),
    ]


def test_a_long_text_full_of_brackets_costs_lines_but_not_minutes(tmp_path: Path) -> None:
    text = TOML.replace("max_tokens = 400", "max_tokens = false\nfoo = '''" + "[a]\n" * 3000 + "'''\nlast = 1")
    problems = check_rubric(write(tmp_path, text))
    assert {problem.message.split(":")[0]: problem.line for problem in problems} == {"max_tokens": 5, "foo": None, "last": None}


def test_the_rubric_of_the_documentation_is_in_order() -> None:
    folder = Path(__file__).parents[2] / "docs" / "judges"
    assert check_rubric(folder / "summary-quality.toml") == []
    assert (folder / "summary-quality.toml").read_text().strip() in (folder / "rubric.md").read_text()
