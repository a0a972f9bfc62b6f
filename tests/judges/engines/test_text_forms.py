"""The answer forms of templates on published vocabularies and all constraint backends."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.templates.file import CRITERION, TemplateFile
from judges.templates.shipped import TEMPLATES
from judges.text_form import Part, TextForm
from tests.judges.engines.grammars import BACKENDS, backend_of, grammar_of, legal_tokens, own_tokens
from tests.vocabularies import VOCABULARIES, tokenizer_of

FIVE = (1, 2, 3, 4, 5)
"""A scale of a user's, for forms that leave it to the criterion."""


def form_of(file: TemplateFile) -> TextForm:
    return file.form.changed({}, {part.name: FIVE for part in file.form.parts if part.kind == CRITERION})


FORMS = {name: form_of(TEMPLATES[name].file) for name in TEMPLATES}
KINDS = [name if name == "smollm2" else pytest.param(name, marks=pytest.mark.stress) for name in VOCABULARIES]

ENDS = 1 / 8
"""Probability with which a walk goes on with the fixed words that end free text."""

LONGEST = 60
"""Tokens of free text after which a walk ends it."""


def written(form: TextForm, chance: random.Random) -> str:
    """An answer as a model trained on the form writes it.

    Its text has no tag of HTML: Gemma 3 has a token for each, which guidance takes for a special one, and no model may write it.
    """
    texts = {"text": "Both name a café’s “crème”.\nThe 2nd is longer: 5/5 [not] <x>", "json text": 'é \\"x\\" [1]', "space": "\n"}
    return "".join(
        piece if isinstance(piece, str) else str(chance.choice(piece.legal)) if piece.legal else texts[piece.kind]
        for piece in form.pieces
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vocabulary", KINDS)
@pytest.mark.parametrize("name", FORMS)
def test_what_a_trained_judge_writes_is_legal(name: str, vocabulary: str, backend: str) -> None:
    tokenizer, form = tokenizer_of(vocabulary), FORMS[name]
    answer = written(form, random.Random(name))
    grammar = grammar_of(backend, vocabulary, form.pattern)
    for token in own_tokens(tokenizer, answer):
        assert grammar.accept_tokens("", [token]), (answer, tokenizer.convert_ids_to_tokens(token))
    assert grammar.accept_tokens("", [tokenizer.eos_token_id])
    assert list(form.read(answer)) == [part.name for part in form.parts]


@pytest.mark.parametrize("examples", [50, pytest.param(1000, marks=pytest.mark.stress)])
@pytest.mark.parametrize("name", FORMS)
def test_every_text_of_the_pattern_is_an_answer(name: str, examples: int) -> None:
    form = FORMS[name]

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(form.pattern, fullmatch=True))
    def read(answer: str) -> None:
        assert list(form.read(answer)) == [part.name for part in form.parts]

    read()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FORMS)
def test_walks_over_legal_tokens_end_in_answers(name: str, backend: str) -> None:
    walks(FORMS[name], "smollm2", backend, 3)


@pytest.mark.stress
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("name", FORMS)
def test_a_thousand_walks_end_in_answers(name: str, vocabulary: str, backend: str) -> None:
    walks(FORMS[name], vocabulary, backend, 1000)


def walks(form: TextForm, vocabulary: str, backend: str, count: int) -> None:
    """Walk over legal tokens at random, and read what is written."""
    tokenizer = tokenizer_of(vocabulary)
    mask = backend_of(backend, vocabulary).allocate_token_bitmask(1)
    for number in range(count):
        chance = random.Random(number)
        grammar = grammar_of(backend, vocabulary, form.pattern)
        ids: list[int] = []
        while True:
            text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            due = _words_due(form, text) if chance.random() < ENDS or len(ids) > LONGEST else ""
            for wanted in tokenizer(due, add_special_tokens=False)["input_ids"] if due else [-1]:
                legal = legal_tokens(grammar, mask)
                fits = wanted in legal  # not inside a character; guidance gives up if it is asked to take it
                token = wanted if fits else int(chance.choice(legal))
                assert grammar.accept_tokens("", [token])
                ids.append(token)
                if not fits:
                    break
            if ids and ids[-1] == tokenizer.eos_token_id:
                break
            if len(ids) > 4 * LONGEST:
                assert isinstance(form.pieces[-1], Part), text
                break
        form.read(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _words_due(form: TextForm, text: str) -> str:
    """The fixed words that end the free text in which a text stands; empty if it stands elsewhere."""
    walk = form._walk(text, whole=False)
    free = walk.piece < len(form.pieces) - 1 and isinstance(piece := form.pieces[walk.piece], Part) and not piece.legal
    return str(form.pieces[walk.piece + 1]) if free else ""
