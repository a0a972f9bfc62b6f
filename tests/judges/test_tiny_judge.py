"""The embedded judge: its size, its tokenizer, and that its scores say something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import judges
from judges.llm_eval import FOUR_METRICS, LLMEval

FOLDER = Path(judges.__file__).parent / "models" / "magistrate-tiny"
SPECIAL_TOKENS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]

# Each is a context and the turn that follows it; a random turn is the turn that follows another context.
DIALOGUES: list[tuple[list[str], str]] = [
    (
        ["Good morning. What seems to be the trouble?", "I have a bad cough and my throat hurts.", "Do you have a fever too?"],
        "Yes, doctor, I had a high fever last night and took some medicine.",
    ),
    (
        ["Welcome. Do you have a table for two?", "Yes, by the window. Here is the menu.", "What soup do you have tonight?"],
        "We have tomato soup and chicken soup. Would you like to order a salad as well?",
    ),
    (
        ["Why did you apply to our company?", "I like your products.", "What was your last job?"],
        "I worked as a sales manager in a small company for three years.",
    ),
    (
        ["Hello, front desk.", "I would like to book a room for Friday.", "Would you like a single room or a double room?"],
        "A double room with a bath, please. How much is it per night?",
    ),
    (
        ["Next, please.", "I want to open a savings account at this bank.", "How much money will you deposit today?"],
        "I will deposit two hundred dollars in cash. What is the interest rate?",
    ),
    (
        ["It is so cold today.", "Yes, and the wind is strong.", "What does the weather forecast say about tomorrow?"],
        "It says that it will rain in the morning and snow at night.",
    ),
    (
        ["May I help you?", "I like this blue dress. Do you have it in a smaller size?", "Yes, here is a small one. Try it on."],
        "It fits me well, but I would rather have the color of that skirt.",
    ),
    (
        ["Excuse me, is the museum far from here?", "It is about two miles.", "Which bus goes there?"],
        "Take the number nine bus at the corner and get off at the third stop.",
    ),
    (
        ["Are you ready for the exam on Monday?", "No, I have not read the book yet.", "Our teacher said it would be hard."],
        "Then let us study together in the library with the other students this weekend.",
    ),
    (
        ["I saw that you have an apartment for rent.", "Yes, it has two bedrooms and a kitchen.", "How much is the rent?"],
        "It is six hundred dollars a month, and the landlord pays for the water.",
    ),
    (
        ["What did you do last night?", "We went to see a new movie.", "Who was in it? Was it good?"],
        "The actor was great, but the film was too long and the story was boring.",
    ),
    (
        ["What time does the flight to London leave?", "At ten. May I see your passport?", "Here it is, and my ticket."],
        "Thank you. Please put your luggage here. Your plane leaves from gate five.",
    ),
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    torch.set_num_threads(threads)


def expected_scores(model: Any, tokenizer: Any, sample: dict[str, Any]) -> dict[str, float]:
    """The four expected scores, each over tokens 0 to 5 after the greedy scores before it."""
    legal = [tokenizer.convert_tokens_to_ids(str(score)) for score in range(6)]
    messages = [{"role": message.role, "content": message.content} for message in LLMEval().render(sample).prompts[0].messages]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    scores: dict[str, float] = {}
    for at, metric in enumerate(FOUR_METRICS):
        ids = ids + tokenizer.encode(f'{", " if at else "{"}"{metric}": ', add_special_tokens=False)
        with torch.no_grad():
            chances = model(torch.tensor([ids])).logits[0, -1, legal].softmax(0)
        scores[metric] = float(chances @ torch.arange(6.0))
        ids = [*ids, legal[int(chances.argmax())]]
    return scores


@pytest.fixture(scope="module")
def scored(model: Any, tokenizer: Any) -> dict[str, list[dict[str, float]]]:
    """Expected scores of 60 rows: each dialogue with its true turn and with four random ones."""
    rows: dict[str, list[dict[str, float]]] = {"true": [], "random": []}
    for at, (context, true) in enumerate(DIALOGUES):
        responses = [("true", true)]
        responses += [("random", DIALOGUES[(at + step) % len(DIALOGUES)][1]) for step in (2, 4, 7, 9)]
        for kind, response in responses:
            rows[kind].append(expected_scores(model, tokenizer, {"context": context, "response": response}))
    return rows


def test_the_folder_is_at_most_8_megabytes() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 8_000_000


def test_special_tokens_and_their_roles(tokenizer: Any) -> None:
    added = {token["content"]: token["special"] for token in json.loads((FOLDER / "tokenizer.json").read_text())["added_tokens"]}
    assert all(added[token] is True for token in SPECIAL_TOKENS)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|begin_of_text|>", "<|eot_id|>")
    assert tokenizer.pad_token not in (None, tokenizer.eos_token, tokenizer.bos_token)
    stops = json.loads((FOLDER / "generation_config.json").read_text())["eos_token_id"]
    assert set(stops) == {tokenizer.convert_tokens_to_ids(token) for token in ("<|eot_id|>", "<|end_of_text|>")}


def test_the_chat_template_is_that_of_llama_3(tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": " hello \n"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nJudge.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "👩🏽‍🚀 took 3 🚀s",
        "שלום, עולם ‏ مرحبا",
        "a\x00b\x00",
        "  two  spaces \n\n\ttab ",
        "don 't and don't",
        "数字12345円",
        "\ufffd\u2028",
    ],
)
def test_any_text_survives_encoding(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_each_score_is_one_token_wherever_it_stands(tokenizer: Any) -> None:
    for score in [str(score) for score in range(101)]:
        alone = tokenizer.encode(score, add_special_tokens=False)
        assert len(alone) == 1
        assert alone[0] in tokenizer.encode(f'{{"content": {score}, "grammar": 101}}', add_special_tokens=False)


def test_the_weights_are_half_precision_and_tied(model: Any) -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert config["tie_word_embeddings"] is True
    assert config["max_position_embeddings"] == 8192
    assert config["head_dim"] in (32, 64)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


def test_a_true_next_turn_is_more_relevant_than_a_random_one(scored: dict[str, list[dict[str, float]]]) -> None:
    true = mean(row["relevance"] for row in scored["true"])
    other = mean(row["relevance"] for row in scored["random"])
    assert true - other > 1.0, f"true {true:.2f}, random {other:.2f}"


def test_a_true_next_turn_is_more_appropriate_than_a_random_one(scored: dict[str, list[dict[str, float]]]) -> None:
    true = mean(row["appropriateness"] for row in scored["true"])
    other = mean(row["appropriateness"] for row in scored["random"])
    assert true - other > 0.8, f"true {true:.2f}, random {other:.2f}"


def test_a_full_reply_says_more_than_a_bare_one(model: Any, tokenizer: Any, scored: dict[str, list[dict[str, float]]]) -> None:
    bare = [expected_scores(model, tokenizer, {"context": context, "response": "Ok."}) for context, _ in DIALOGUES[:6]]
    assert mean(row["content"] for row in scored["true"]) - mean(row["content"] for row in bare) > 1.0
