import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.constraint import up_to
from judges.errors import AnswerError
from judges.text_form import JSON_TEXT, SPACE, TEXT, Part, TextForm, parts_in

REASONED = TextForm((Part("why", kind=TEXT), "[RESULT] ", Part("score", (1, 2, 10)), "!"), 64)
JSON = TextForm(('{"a": "', Part("why", kind=JSON_TEXT), '", "b": ', Part("score", (1, 2)), "}"), 64)
SCORE_FIRST = TextForm((Part("score", (1, 2)), "\n", Part("why", kind=TEXT)), 64)
SPACED = TextForm(("<a>", Part("gap", kind=SPACE), "<b>", Part("choice", ("Response 1", "Response 2", "Tie")), "."), 64)
FORMS = (REASONED, JSON, SCORE_FIRST, SPACED)

WORDS = st.text("ab[", min_size=1, max_size=6)
WHOLE = {
    REASONED: "Both are [fine].\n[RESULT] 10!",
    JSON: '{"a": "so \\"it\\" \\u00e9", "b": 2}',
    SCORE_FIRST: "2\nFor it is short.",
    SPACED: "<a>\n\n<b>Response 2.",
}


@given(WORDS, st.text("ab[x", max_size=12))
def test_free_text_ends_where_the_words_first_occur(words: str, text: str) -> None:
    first = text.find(words)
    assert bool(re.fullmatch(up_to(words), text)) == (0 <= first == len(text) - len(words))


def test_the_pattern_of_long_words_stays_short() -> None:
    words = "\n\n**Result:** So, the final decision is "
    assert len(up_to(words)) < 25 * len(words)


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_answer_fits_the_pattern_and_is_read(form: TextForm) -> None:
    assert re.fullmatch(form.pattern, WHOLE[form])
    assert list(form.read(WHOLE[form])) == [part.name for part in form.parts]


def test_values_have_their_types() -> None:
    assert REASONED.read(WHOLE[REASONED]) == {"why": "Both are [fine].", "score": 10}
    assert JSON.read(WHOLE[JSON]) == {"why": 'so "it" é', "score": 2}
    assert SPACED.read(WHOLE[SPACED]) == {"gap": "", "choice": "Response 2"}


@pytest.mark.parametrize("terse", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_cut_off_anywhere_can_be_finished(form: TextForm, terse: bool) -> None:
    whole = WHOLE[form]
    for cut in range(len(whole)):
        rest = form.remainder(whole[:cut], terse=terse)
        if rest is None:  # the text at the end of an answer may end anywhere
            form.read(whole[:cut])
            continue
        assert whole[:cut].startswith(rest.kept)
        assert re.fullmatch(form.pattern, rest.kept + _shortest(rest.pattern)), (cut, rest)
        form.read(rest.kept + _shortest(rest.pattern))


ENDINGS = ('{"a": "", "b": 1}', "10!", "2!", "1!", "1\n", "\n", "[RESULT] 1!", "<a><b>Tie.")
"""Ends of answers; each pattern of a remainder matches an end of one of them."""


def _shortest(pattern: str) -> str:
    """A text that the pattern of a remainder matches."""
    ends = (ending[start:] for ending in ENDINGS for start in range(len(ending) + 1))
    return next(end for end in ends if re.fullmatch(pattern, end))


def test_a_half_written_number_is_written_again() -> None:
    rest = REASONED.remainder("x [RESULT] 1", terse=False)
    assert rest is not None
    assert rest.kept == "x [RESULT] "
    assert re.fullmatch(rest.pattern, "10!")


def test_what_departs_from_the_form_is_not_finished() -> None:
    assert JSON.remainder('{"b"', terse=True) is None
    assert SPACED.remainder("<a>x", terse=True) is None


def test_places_say_what_follows() -> None:
    place = REASONED.place(WHOLE[REASONED], ("score",))
    assert place is not None
    assert WHOLE[REASONED][place.start : place.end] == "10"
    assert place.after == "!"
    assert SCORE_FIRST.place("2\nx", ("nothing",)) is None


def test_room_without_free_text_covers_the_fixed_words() -> None:
    assert REASONED.terse_room == len("[RESULT] 10!")


@given(st.text(max_size=40))
def test_reading_never_breaks(text: str) -> None:
    for form in FORMS:
        try:
            form.read(text)
        except AnswerError:
            assert not re.fullmatch(form.pattern, text)


def test_braces_are_doubled_in_a_pattern() -> None:
    assert list(parts_in("{{a}} {b}{c}")) == [("{a} ", "b"), ("", "c"), ("", "")]


@pytest.mark.parametrize(
    ("pieces", "answer", "value"),
    [
        (("[SCORE] ", Part("score", tuple(range(1, 11)))), "[SCORE] 1", 1),
        (("It is ", Part("score", ("A", "A better"))), "It is A", "A"),
        ((Part("score", tuple(range(1, 11))), "0 points"), "10 points", 1),
        ((Part("score", ("A", "A better")), " better"), "A better", "A"),
        ((Part("gap", kind=SPACE), " x", Part("score", (1, 2))), "  x1", 1),
        ((Part("score", (1, 2)), ".", Part("gap", kind=SPACE)), "1.\n", 1),
    ],
)
def test_what_the_pattern_accepts_is_read(pieces: tuple[str | Part, ...], answer: str, value: int | str) -> None:
    form = TextForm(pieces, 64)
    assert re.fullmatch(form.pattern, answer)
    assert form.read(answer)["score"] == value
    place = form.place(answer, ("score",))
    assert place is not None
    assert answer[place.start : place.end] == str(value)


def test_half_a_character_of_an_answer_can_be_written() -> None:
    text = str(REASONED.read("x \ud83d [RESULT] 2!")["why"])
    assert text.encode() == "x \ufffd".encode()
