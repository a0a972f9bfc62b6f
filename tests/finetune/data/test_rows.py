"""Rows in tokens: what is before the answer is what the engines ask, loss is on the answer alone, and bad rows are listed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from evals.data.tasks import Task, read_dataset
from finetune.data.conversations import Conversation, Early, Rejected, Span, of_task, read_conversations
from finetune.data.rows import Row, encode
from finetune.training.recipe import Recipe
from judges.engines.chat import ChatTokenizer
from judges.judge import Message
from tests.tiny import TINY

# Meta's own, as published with Llama 2 chat and with Llama 3.1, the latter without its tools.
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}"
    "{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA_3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA_3_1 = (
    "{{- bos_token }}{%- set date_string = '26 Jul 2024' %}{%- if messages[0]['role'] == 'system' %}"
    "{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}"
    "{%- else %}{%- set system_message = '' %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}{{- 'Cutting Knowledge Date: December 2023\n' }}"
    "{{- 'Today Date: ' + date_string + '\n\n' }}{{- system_message }}{{- '<|eot_id|>' }}"
    "{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
CHATML = (
    "{% for message in messages %}{{ '<|eot_id|>' + message['role'] + '\n' + message['content'] + '<|end_of_text|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|eot_id|>assistant\n' }}{% endif %}"
)
VICUNA = Recipe.load("grouse").template()
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + LLAMA_3

TEMPLATES = {
    "llama-2": LLAMA_2,
    "llama-3": LLAMA_3,
    "llama-3.1": LLAMA_3_1,
    "our own": None,
    "chatml": CHATML,
    "none": "",
    "vicuna": VICUNA,
}
ENDS = {"llama-2": "<|eot_id|>", "llama-3": "<|eot_id|>", "llama-3.1": "<|eot_id|>", "our own": "<|eot_id|>"}


def chat_of(template: str | None) -> ChatTokenizer:
    """The tests' model's tokenizer with another template; an empty one stands for a base model that has none."""
    tokenizer = AutoTokenizer.from_pretrained(str(TINY))
    if template is not None:
        tokenizer.chat_template = template or None
    return ChatTokenizer(tokenizer)


def conversation(*texts: str, system: str | None = None) -> Conversation:
    turns = [Message(("user", "assistant")[number % 2], text) for number, text in enumerate(texts)]
    return Conversation("one", (*([Message("system", system)] if system else []), *turns))


def row_of(chat: ChatTokenizer, one: Conversation) -> Row:
    rows, rejected = encode([one], chat, 4096)
    assert not rejected
    return rows[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_token_by_token_what_is_asked_and_what_is_learned(name: str) -> None:
    chat = chat_of(TEMPLATES[name])
    one = conversation("What is 2 and 2?", "It is 4.")
    row = row_of(chat, one)
    assert row.ids[: row.answer].tolist() == chat.encode(one.messages[:-1]), "what the engines ask"
    learned = chat.tokenizer.decode(row.ids[row.answer :], clean_up_tokenization_spaces=False)
    end = {"chatml": "<|end_of_text|>"}.get(name, chat.tokenizer.eos_token)
    assert learned == (f" It is 4. {end}" if name == "llama-2" else f"It is 4.{end}"), "the answer, and where it ends"
    assert row.learned.tolist() == list(range(row.answer, len(row.ids)))


@pytest.mark.parametrize("name", ["llama-2", "llama-3", "llama-3.1", "our own"])
def test_ids_are_those_of_the_template_itself(name: str) -> None:
    chat = chat_of(TEMPLATES[name])
    one = conversation("Hi.", "Ho.", "And so on?", "No.", system=None if name == "llama-2" else "Be brief.")
    theirs = chat.tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.content} for message in one.messages], return_dict=False
    )
    assert row_of(chat, one).ids.tolist() == theirs
    assert theirs.count(chat.tokenizer.bos_token_id) == (2 if name == "llama-2" else 1), "Llama 2 begins each exchange with one"


@pytest.mark.parametrize("name", TEMPLATES)
def test_only_the_last_answer_is_learned(name: str) -> None:
    chat = chat_of(TEMPLATES[name])
    row = row_of(chat, conversation("first?", "earlier answer", "second?", "later answer"))
    learned = chat.tokenizer.decode(row.ids[row.answer :])
    assert "later answer" in learned
    assert "earlier" not in learned
    assert "earlier answer" in chat.tokenizer.decode(row.ids[: row.answer])


def test_spans_are_learned_as_they_are_and_read_as_they_are_shown() -> None:
    chat = chat_of(None)
    prompt, answer = Message("user", "Judge."), '{"a": 4, "why": "It is 4.", "b": 2}'
    spans = (
        Span(start=6, end=7, shown="1"),
        Span(start=16, end=26, weight=0.5),
        Span(start=33, end=34, shown="0"),
    )
    row = row_of(chat, Conversation("one", (prompt, Message("assistant", answer)), spans))
    read = '{"a": 1, "why": "It is 4.", "b": 0'
    assert chat.tokenizer.decode(row.ids[row.answer :]) == read, "nothing stands after what is learned last"
    texts = [chat.tokenizer.decode([int(token)]) for token in row.targets]
    assert texts[0] == "4"
    assert "It is 4." in "".join(texts[1:-1])
    assert texts[-1] == "2"
    assert row.weights.tolist() == [1.0, *[0.5] * (len(texts) - 2), 1.0]


def test_a_score_is_learned_early_in_the_text_that_ends_the_prompt() -> None:
    chat = chat_of(None)
    text = "one two three four five six seven eight nine ten eleven twelve"
    messages = (Message("user", f"Judge this. {text}"), Message("assistant", '{"a": 4}'))
    early = Early(target="4", characters=len(text), weight=0.25)
    row = row_of(chat, Conversation("one", messages, (Span(start=6, end=7),), early))
    places = row.learned[row.weights == 0.25]
    assert len(places) == 8
    read = [chat.tokenizer.decode([int(token)]) for token in row.ids[places - 1]]
    assert read[-1].strip().endswith("ve")
    assert all(part.strip() in text for part in read)
    assert {chat.tokenizer.decode([int(token)]) for token in row.targets[:8]} == {"4"}


def test_what_has_other_tokens_than_the_answer_is_not_shown() -> None:
    chat = chat_of(None)
    messages = (Message("user", "Judge."), Message("assistant", '{"a": 4}'))
    row = row_of(chat, Conversation("one", messages, (Span(start=6, end=7, shown="four or five"),)))
    assert chat.tokenizer.decode(row.ids[row.answer :]) == '{"a": 4'


@pytest.mark.parametrize(
    ("learn", "reason"),
    [
        ("all", "field learn: must be a list, not 'all'"),
        ([{"start": 0}], "field learn.1.end: is missing"),
        ([{"start": 0, "end": 1, "weight": 0}], "field learn.1.weight: must be above 0, not 0"),
        ([{"start": 2, "end": 9}], "the span from 2 to 9 is empty, overlaps the one before it, or is outside the answer of 8"),
        ([{"start": 2, "end": 4}, {"start": 3, "end": 5}], "the span from 3 to 5 is empty, overlaps the one before it"),
    ],
)
def test_a_faulty_span_is_told(tmp_path: Path, learn: object, reason: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"prompt": "Judge.", "completion": '{"a": 4}', "learn": learn}) + "\n")
    (row,) = read_conversations(file)
    assert isinstance(row, Rejected)
    assert reason in row.reason


pieces = st.lists(
    st.sampled_from(["<|eot_id|>", "<|end_of_text|>", "<|start_header_id|>", "word ", "\n", "🙂", "שלום", "<|", "a\x00", "}"]),
    min_size=1,
    max_size=6,
).map("".join)


@given(pieces, pieces, st.sampled_from(["llama-3", "llama-3.1", "our own"]))
def test_what_a_row_spells_is_never_a_special_token(asked: str, answer: str, name: str) -> None:
    chat = chat_of(TEMPLATES[name])
    one = conversation(asked, answer)
    rows, rejected = encode([one], chat, 4096)
    if not answer.strip():
        assert rejected[0].reason == "the answer is empty"
        return
    special = {chat.tokenizer.convert_tokens_to_ids(token) for token in ("<|eot_id|>", "<|end_of_text|>", "<|start_header_id|>")}
    learned = rows[0].ids[rows[0].answer :].tolist()
    assert [token for token in learned if token in special] == learned[-1:]
    assert chat.tokenizer.decode(learned[:-1], clean_up_tokenization_spaces=False) == answer.strip()


def test_rows_that_cannot_be_learned_are_listed_with_why() -> None:
    chat = chat_of(NO_SYSTEM)
    given_rows: list[Conversation | Rejected] = [
        conversation("a", "b"),
        conversation("a", "  \n"),
        conversation("word " * 3000, "b"),
        conversation("a", "b", system="Be brief."),
        Rejected("five", "file row 5: is not JSON"),
    ]
    rows, rejected = encode(given_rows, chat, 1024)
    assert len(rows) == 2, "a system's words stand before the user's where the template refuses them"
    assert "Be brief." in chat.tokenizer.decode(rows[1].ids)
    reasons = [one.reason for one in rejected]
    assert reasons[0] == "the answer is empty"
    assert reasons[1].startswith("it has 3,0")
    assert reasons[1].endswith("tokens, and a row may have 1,024")
    assert reasons[2] == "file row 5: is not JSON"


def test_conversations_are_read_in_the_forms_that_people_have(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        {"id": "a", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
        {"id": "b", "conversations": [{"from": "USER", "value": "x"}, {"from": "ASSISTANT", "value": "y"}]},
        {"id": "c", "prompt": "x", "completion": "y"},
        {"id": "d", "messages": [{"role": "user", "content": "x"}]},
        {"id": "e", "messages": [{"role": "oracle", "content": "x"}]},
        {"id": "f", "messages": [{"role": "assistant", "content": "x"}]},
        {"id": "g", "prompt": "x"},
        {"id": "h", "messages": "x"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\n")
    found = list(read_conversations(file))
    wanted = (Message("user", "x"), Message("assistant", "y"))
    assert [one.messages for one in found if isinstance(one, Conversation)] == [wanted] * 3
    reasons = {one.id: one.reason.split(": ", 1)[1] for one in found if isinstance(one, Rejected)}
    assert reasons["d"] == "the last turn is the user's: end with the assistant's answer"
    assert reasons["e"].startswith("field `messages`: turn 1 is by `oracle`: give one of user, human")
    assert reasons["f"] == "there is only an answer: put a prompt before it"
    assert reasons["g"] == "field `completion` is missing"
    assert reasons["h"] == "field `messages` must be a list of turns, not a string"
    assert "is not JSON" in reasons["9"]


def test_a_task_is_learned_as_it_is_asked(data: Path) -> None:
    task = Task.load("dialogsum")
    instances = read_dataset(task, data / "dialogsum" / "dialogsum.dev.jsonl", 3).instances
    found = of_task(task, instances)
    assert [one.id for one in found] == [one.id for one in instances]
    assert found[0].messages[0].content.startswith(task.instruction)
    assert found[0].messages[0].content.endswith("Output:")
    assert found[0].messages[1].content == instances[0].truth


def test_the_grouse_recipes_conversations_are_spelt_as_the_card_shows() -> None:
    """Vicuna's form, with the answer's first brace in tokens of its own, since a constrained answer begins with it."""
    chat = chat_of(VICUNA)
    card = (Path(__file__).parents[2] / "data" / "grouse_card.txt").read_text(encoding="utf-8")
    row = row_of(chat, conversation(card, '{"answer_relevancy": {}}'))
    bos, eos = chat.tokenizer.bos_token, chat.tokenizer.eos_token
    asked, learned = (chat.tokenizer.decode(ids, clean_up_tokenization_spaces=False) for ids in np.split(row.ids, [row.answer]))
    assert asked == f"{bos}USER: {card} ASSISTANT: "
    assert learned == f'{{"answer_relevancy": {{}}}}{eos}'


def test_an_adapter_is_asked_in_the_form_of_its_own_template() -> None:
    base = chat_of(None)
    messages = [Message("user", "Hi.")]
    assert base.with_template(VICUNA).encode(messages) == chat_of(VICUNA).encode(messages)
    assert base.with_template(None).encode(messages) == base.encode(messages) != chat_of(VICUNA).encode(messages)
    assert chat_of("").with_template(VICUNA).encode(messages) == chat_of(VICUNA).encode(messages), "a base without one"
