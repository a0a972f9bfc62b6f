import pytest
from pydantic import ValidationError

from judges.errors import MagistrateError
from judges.templates.cutting import Cut, Hole, parsed

MODULE = '''
import textwrap
PLAIN = "Rate {answer}: {{x}}"
SUM = "a" + ("b"
    "c")
DEDENTED = textwrap.dedent("""
    one
      two
    """).strip()
TURN = make(system="Be fair.", prompt=f"{kind} of")
def asked(answer, tags):
    text = "first"
    text = f"Rate {answer} by {tags['x']}\\n"
    return "given"
class Writer:
    def asked(self):
        text = "of a class"
BROKEN = make(1)
'''


def words(**steps: object) -> tuple[str | Hole, ...]:
    return Cut(**steps).words(MODULE, ())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("PLAIN", ("Rate ", Hole("answer"), ": ", "{", "x", "}")),
        ("SUM", ("abc",)),
        ("DEDENTED", ("one\n  two",)),
        ("TURN.system", ("Be fair.",)),
        ("TURN.prompt", (Hole("kind"), " of")),
        ("asked.text", ("first",)),
        ("asked.return", ("given",)),
        ("Writer.asked.text", ("of a class",)),
    ],
)
def test_texts_of_python_are_read_without_running_it(path: str, text: tuple[str | Hole, ...]) -> None:
    assert words(python=path) == text


def test_an_f_string_has_a_place_for_each_expression() -> None:
    assert words(python="asked.text", nth=2) == ("Rate ", Hole("answer"), " by ", Hole("tags['x']"), "\n")
    assert words(python="asked.text", nth=2, after="Rate ", before="\n") == (Hole("answer"), " by ", Hole("tags['x']"))


def test_the_three_ways_to_write_a_place() -> None:
    assert parsed("{a} {{b}} {c d}", "format", ()) == (Hole("a"), " ", "{", "b", "}", " {c d}")
    assert parsed("{a} {{ b }}", "jinja", ()) == ("{a} ", Hole("b"))
    assert parsed('{"x": {a}} {b}', "names", ("a",)) == ('{"x": ', Hole("a"), "} {b}")


def test_steps_follow_one_another() -> None:
    readme = (
        '# Use\n```python\nprompt = \'\'\'one\ntwo {x}\'\'\'\n```\n```json\n{"a": {"b": "deep", "c": ["d", {"e": 1}]}}\n```\n'
    )
    assert Cut(fence=1, python="prompt", line=2).words(readme, ()) == ("two ", Hole("x"))
    assert Cut.model_validate({"fence": 2, "json": "a.b"}).words(readme, ()) == ("deep",)
    assert Cut.model_validate({"fence": 2, "json": "a.c.1", "style": "names"}).words(readme, ()) == ("{'e': 1}",)
    assert Cut(yaml="a.b").words("a:\n  b: |-\n    x\n    y\n", ()) == ("x\ny",)
    assert Cut(style="jinja").words("ask {{q}}\n", ()) == ("ask ", Hole("q")), "Jinja leaves out the last line end"


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({"python": "NOTHING"}, "its Python has no `NOTHING`"),
        ({"python": "asked.text", "nth": 3}, "has `asked.text` 2 times"),
        ({"python": "BROKEN"}, "not a text as it stands"),
        ({"fence": 1}, "it has no fenced block 1"),
        ({"after": "nowhere"}, 'it has no "nowhere"'),
        ({"line": 99}, "it has no line 99"),
        ({"yaml": "a.b"}, "it has no text at `a.b`"),
    ],
)
def test_a_step_that_finds_nothing_says_so(steps: dict[str, object], why: str) -> None:
    with pytest.raises(MagistrateError, match=why):
        words(**steps)


def test_a_file_that_is_no_python_says_so() -> None:
    with pytest.raises(MagistrateError, match="it is not Python"):
        Cut(python="x").words("x = (", ())


@pytest.mark.parametrize("steps", [{"text": "x", "python": "y"}, {"text": "x", "each_level": "y"}])
def test_a_text_is_given_or_cut(steps: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Cut(**steps)
