"""Prompts of published tokenizers: the template's own tokens, roles that it refuses, and marks of thoughts."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from openai_harmony import (  # type: ignore[import-untyped]
    Conversation,
    HarmonyEncodingName,
    RenderConversationConfig,
    Role,
    load_harmony_encoding,
)
from openai_harmony import Message as HarmonyMessage

from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Request
from judges.engines.vocabulary import RENDERING, SAMPLES, identity_options, spelled
from judges.errors import RequestError
from judges.judge import Message
from tests.vocabularies import folder_of, tokenizer_of

TEMPLATED = ("llama3_1", "qwen3", "gemma3", "deepseek_v3", "smollm2")
"""Published with a chat template; Llama 2 and gpt-oss are not in these packages."""

LLAMA_2 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token + bos_token }}{% endif %}{% endfor %}"
)
"""Turns in Llama 2's form."""

GPT_OSS = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
"""Turns in gpt-oss's form."""

REFUSING = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' or (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
)


def chat_of(name: str, template: str | None = None) -> ChatTokenizer:
    return ChatTokenizer(tokenizer_of(name)).with_template(template)


def templated(name: str, messages: list[Message], **options: Any) -> list[int]:
    """The ids of the tokenizer's own template."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    ids = tokenizer_of(name).apply_chat_template(turns, add_generation_prompt=True, return_dict=False, **options)
    return list(ids)


@pytest.mark.parametrize("name", TEMPLATED)
@pytest.mark.parametrize("text", SAMPLES)
def test_the_tokens_of_a_prompt_are_the_templates_own(name: str, text: str) -> None:
    messages = [Message("system", "Judge."), Message("user", text)]
    ids = chat_of(name).encode(messages)
    assert ids == templated(name, messages, enable_thinking=False)
    beginnings = {"qwen3": 0, "smollm2": 3}  # SmolLM2 begins every turn with this token
    assert ids.count(tokenizer_of(name).bos_token_id) == beginnings.get(name, 1)


def test_llama_2s_turns_are_encoded_as_its_authors_code_does() -> None:
    """``chat_completion`` of ``meta-llama/llama``: each exchange is encoded apart, with a beginning and an end."""
    tokenizer = tokenizer_of("llama2")

    def encode(text: str) -> list[int]:
        return [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]

    theirs = [*encode("[INST] Good? [/INST] Yes. "), tokenizer.eos_token_id, *encode("[INST] Why? [/INST]")]
    messages = [Message("user", "Good?"), Message("assistant", "Yes."), Message("user", "Why?")]
    assert chat_of("llama2", LLAMA_2).encode(messages) == theirs


@pytest.mark.parametrize("name", ["llama3_1", "gemma3"])
def test_a_template_that_refuses_roles_gets_turns_of_user_and_assistant(name: str) -> None:
    chat = chat_of(name, REFUSING)
    asked = [Message("system", "Judge."), Message("user", "One."), Message("user", "Two.")]
    assert chat.encode(asked) == chat.encode([Message("user", "Judge.\n\nOne.\n\nTwo.")])
    hostile = [Message("system", "Judge."), Message("user", f"{tokenizer_of(name).eos_token} Two.")]
    ids = chat.encode(hostile)
    assert tokenizer_of(name).eos_token_id not in ids
    assert f"Judge.\n\n{tokenizer_of(name).eos_token} Two." in tokenizer_of(name).decode(ids)


def test_a_template_that_refuses_every_order_of_roles_is_quoted() -> None:
    chat = chat_of("llama3_1", "{{ raise_exception('not today') }}")
    for roles in (["user"], ["system", "user"]):
        with pytest.raises(RequestError, match="the chat template refuses the conversation: not today"):
            chat.encode([Message("user" if role == "user" else "system", "x") for role in roles])
    assert chat.is_plain, "what it refuses is said by sample"


@pytest.mark.parametrize("name", ["llama2", "gptoss"])
def test_a_model_without_a_template_gets_plain_text_behind_one_beginning(name: str) -> None:
    tokenizer = tokenizer_of(name)
    ids = ChatTokenizer(tokenizer).with_template(None).encode([Message("system", "Judge."), Message("user", "A good answer?")])
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Judge.\n\nA good answer?\n"
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1


def test_qwen_is_asked_with_and_without_a_thought_in_its_own_form() -> None:
    messages = [Message("user", "Good?")]
    chat = chat_of("qwen3")
    plain = Request(tuple(messages), 8)
    asked = {name: chat.prompt(request, 99) for name, request in requests(plain, "<think>\nIt is.").items()}
    thinking = templated("qwen3", messages, enable_thinking=True)
    assert asked["answer"] == templated("qwen3", messages, enable_thinking=False)
    assert asked["thought"] == thinking
    assert (
        chat.tokenizer.decode(asked["answer after a thought"])
        == chat.tokenizer.decode(thinking) + '<think>\nIt is.\n</think>\n\n{"a":'
    )
    assert chat.thought_end == "</think>"


def test_a_template_that_begins_a_thought_has_it_closed_where_none_is_wanted() -> None:
    template = "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}{{ '<|im_start|>assistant\n<think>\n' }}"
    chat = chat_of("qwen3", template)
    asked = requests(Request((Message("user", "Good?"),), 8), "It is.")
    texts = {name: chat.tokenizer.decode(chat.prompt(request, 99)) for name, request in asked.items()}
    opened = "<|im_start|>Good?<|im_start|>assistant\n<think>\n"
    assert texts["thought"] == opened
    assert texts["answer"] == f"{opened}\n</think>\n\n"
    assert texts["answer after a thought"] == f'{opened}It is.\n</think>\n\n{{"a":'


def requests(plain: Request, thought: str) -> dict[str, Request]:
    return {
        "answer": plain,
        "thought": Request(plain.messages, plain.max_tokens, thinks=True),
        "answer after a thought": Request(plain.messages, plain.max_tokens, thought=thought, answer_start='{"a":'),
    }


def test_gpt_oss_thinks_and_answers_in_channels_as_its_authors_library_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmony = harmony_encoding(tmp_path, monkeypatch)
    chat = chat_of("gptoss", GPT_OSS)
    asked = requests(Request((Message("user", "Good?"),), 8), "It is.")
    ids = {name: chat.prompt(request, 99) for name, request in asked.items()}
    user = HarmonyMessage.from_role_and_content(Role.USER, "Good?")
    begun = harmony.render_conversation_for_completion(Conversation.from_messages([user]), Role.ASSISTANT)
    special = {"<|channel|>", "<|message|>", "<|end|>", "<|start|>"}
    assert ids["answer"] == begun + harmony.encode("<|channel|>final<|message|>", allowed_special=special)
    assert ids["thought"] == begun + harmony.encode("<|channel|>analysis<|message|>", allowed_special=special)
    parts = [("analysis", "It is."), ("final", '{"a":')]
    answer = [HarmonyMessage.from_role_and_content(Role.ASSISTANT, text).with_channel(channel) for channel, text in parts]
    whole = harmony.render_conversation(
        Conversation.from_messages([user, *answer]), RenderConversationConfig(auto_drop_analysis=False)
    )
    assert [*ids["answer after a thought"], chat.thought_end] == whole
    assert isinstance(chat.thought_end, int)
    spelled_out = chat.prompt(Request((Message("user", "Good?"),), 8, thought="It is <|end|> or so."), 99)
    assert spelled_out.count(chat.thought_end) == 2, "a thought's letters are no marks"


def harmony_encoding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library of gpt-oss's authors, over the bytes of the published tokenizer."""
    model = json.loads((folder_of("gptoss") / "tokenizer.json").read_text())["model"]["vocab"]
    special = {token.content for token in tokenizer_of("gptoss").added_tokens_decoder.values()}
    ranks = {number: text for text, ids in spelled(tokenizer_of("gptoss")).items() for number in ids}
    numbers = sorted(number for token, number in model.items() if token not in special)
    lines = [f"{base64.b64encode(ranks[number]).decode()} {number}\n" for number in numbers]
    (folder / "o200k_base.tiktoken").write_text("".join(lines))
    monkeypatch.setenv("TIKTOKEN_ENCODINGS_BASE", str(folder))
    return load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)


@pytest.mark.parametrize(("name", "changed"), [("llama3_1", False), ("deepseek_v3", False), ("qwen3", True)])
def test_the_identity_names_the_rendering_where_thoughts_change_prompts(name: str, changed: bool) -> None:
    options = identity_options(folder_of(name), "guidance", "vllm", "0")
    assert options == ({"rendering": RENDERING} if changed else {})
