"""Whatever a sample says, it is judged: it changes no word of the prompt, becomes no special token and gets a legal verdict."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from judges.affinity import Affinity
from judges.catalog import open_judge
from judges.data.rows import Row
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine
from judges.engines.vllm.engine import VLLMEngine
from judges.errors import AnswerError
from judges.grouse import Grouse
from judges.judge import Judge, Message, RenderedPrompts, Score
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.qualeval import Discovery, Insight, Shrink
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.judges.hostile import FAMILIES, HOSTILE, PLAIN, SAMPLES, SPECIAL, sample_of, spread
from tests.tiny import TINY

ATTRIBUTES = ["Science", "Everyday life", "Sport"]
RUBRIC = """
name = "hostile"
fields = ["dialogue", "summary"]

[[metric]]
name = "quality"
description = "Is it good?"
scale = "1-5"

[[metric]]
name = "polite"
description = "Is it polite?"
scale = "pass/fail"

[[example]]
sample = { dialogue = "hi", summary = "They greet." }
reasoning = "It says what they do."
scores = { quality = 4, polite = "pass" }
"""

JUDGES: Mapping[str, Callable[[], Judge]] = {
    "llm-eval": LLMEval,
    "llm-eval, a dialogue": lambda: LLMEval(scale="0-100"),
    "grouse": lambda: Grouse(max_tokens=64),
    "pairwise": lambda: Pairwise(reasoning=False),
    "pairwise, in turns": lambda: Pairwise(reasoning=False, language="zh"),
    "affinity": lambda: Affinity(ATTRIBUTES, output="generation", evidence="none"),
    "discovery": lambda: Discovery(most=2),
    "discovery, objects": lambda: Discovery(kind="subtask", most=2),
    "shrink": lambda: Shrink(least=2),
    "insight": lambda: Insight(most=1),
}
"""Shape of a sample to a judge of it whose answers are short; the rubric comes from a file."""

SHORT = ("llm-eval", "pairwise", "affinity", "rubric")
"""Judges that answer with scores alone."""

LONG = {"grouse": 2, "discovery": 6, "insight": 6, "shrink": 6}
"""Judges that write lists or text, and to how many texts. GroUSE's prompt alone has some 4,000 tokens."""

MARK = "\ue0f0mark\ue0f1"
"""A harmless text that stands in no prompt."""

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
NAMES_NOTHING = ("bad answer: the answer names no", "bad answer: the answer says nothing")
"""A weak model may leave a list of names or sentences empty; no constraint forbids that."""


@pytest.fixture(scope="module")
def judge_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Judge]:
    file = tmp_path_factory.mktemp("rubric") / "hostile.toml"
    file.write_text(RUBRIC)

    @cache
    def found(shape: str) -> Judge:
        return open_judge(str(file), reasoning=False) if shape == "rubric" else JUDGES[shape]()

    return found


@pytest.fixture(scope="module")
def tiny() -> ChatTokenizer:
    return ChatTokenizer.load(Path(TINY))


def carried(text: str) -> str:
    """The text as a prompt can carry it."""
    return "".join(
        part.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if LONE_SURROGATE.search(part) else part
        for part in re.split("([\ud800-\udfff]+)", text)
    )


def contents(rendered: RenderedPrompts) -> list[str]:
    return [message.content for prompt in rendered.prompts for message in prompt.messages]


def with_text(content: str, text: str) -> str:
    """A prompt about the mark, with the text in the mark's place; in quotation marks as JSON spells it."""
    return content.replace(f'"{MARK}"', json.dumps(carried(text), ensure_ascii=False)).replace(MARK, carried(text))


def without_empty(sample: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The marked sample without what an empty text leaves out."""
    optional = () if text else ("reference", "reference_answer", "evaluating_guidance")
    return {name: value for name, value in sample.items() if name not in optional}


def legal_scores(judge: Judge) -> dict[str, Collection[Score]]:
    """Metric to its legal scores, from the schemas that constrain the answers."""
    if isinstance(judge, Pairwise):
        return {"preference": {*_choices(judge.form.schema, ("choice",)), "tie"}, "orders_agree": {0, 1}}
    paths = {score.metric: score.path for score in judge.numeric_scores}
    legal: dict[str, Collection[Score]] = {}
    for metric in judge.levels:
        if metric.endswith(("positive_acceptance", "negative_rejection")):
            legal[metric] = {0, 1, None}
        else:
            (legal[metric],) = [_choices(form.schema, paths.get(metric, (metric,))) for form in judge.forms]
    return legal


def _choices(schema: Mapping[str, Any] | None, path: Sequence[str]) -> set[Score]:
    """The enumeration that stands in a schema at the end of a path of keys."""
    assert schema is not None
    shape = schema
    for key in path:
        shape = shape["properties"][key]
        if "$ref" in shape:
            shape = schema["$defs"][shape["$ref"].rpartition("/")[2]]
    found: set[Score] = set()
    for one in shape.get("anyOf", [shape]):
        found |= {None} if one.get("type") == "null" else set(one["enum"] if "enum" in one else [one["const"]])
    return found


def check_scores(judge: Judge, scores: Mapping[str, Score] | None, detail: Mapping[str, Any] | None) -> None:
    legal = legal_scores(judge)
    assert scores is not None
    assert list(scores) == list(legal)
    for metric, score in scores.items():
        assert not isinstance(score, bool | float)
        assert score in legal[metric]
    match judge:
        case Discovery():
            _check_texts(detail, "attributes", judge.options.most)
        case Insight():
            _check_texts(detail, "insights", judge.options.most)
        case Shrink():
            assert detail
            assert detail["chosen"] == sorted(set(detail["chosen"]))
            assert all(type(number) is int for number in detail["chosen"])


def _check_texts(detail: Mapping[str, Any] | None, name: str, most: int) -> None:
    assert detail
    assert 1 <= len(detail[name]) <= most
    assert all(isinstance(text, str) and text.strip() for text in detail[name])


@cache
def special_ids(chat: ChatTokenizer) -> dict[int, str]:
    return {number: str(token.content) for number, token in chat.tokenizer.added_tokens_decoder.items() if token.special}


def control_tokens(chat: ChatTokenizer, messages: Sequence[Message]) -> list[str]:
    special = special_ids(chat)
    return [special[token] for token in chat.encode(messages) if token in special]


def test_there_are_hundreds_of_texts_each_once() -> None:
    assert len(HOSTILE) == len(set(HOSTILE)) >= 200
    assert not {PLAIN, MARK, "field"} & set(HOSTILE)
    assert all(set(family) & set(spread(60)) for family in FAMILIES.values()), "a spread holds something of every family"


@pytest.mark.parametrize("shape", SAMPLES)
def test_a_text_stands_in_the_prompt_as_it_is_and_changes_nothing_else(shape: str, judge_of: Callable[[str], Judge]) -> None:
    judge = judge_of(shape)
    for text in HOSTILE:
        marked = judge.render(without_empty(sample_of(shape, MARK), text))
        rendered = judge.render(sample_of(shape, text))
        assert contents(rendered) == [with_text(content, text) for content in contents(marked)], ascii(text[:80])
        assert [prompt.form.schema for prompt in rendered.prompts] == [prompt.form.schema for prompt in marked.prompts]


@pytest.mark.parametrize("shape", SAMPLES)
def test_the_only_special_tokens_are_those_of_the_chat_template(
    shape: str, judge_of: Callable[[str], Judge], tiny: ChatTokenizer
) -> None:
    judge = judge_of(shape)
    turn = ["<|start_header_id|>", "<|end_header_id|>"]
    for text in HOSTILE:
        for prompt in judge.render(sample_of(shape, text)).prompts:
            frame = ["<|begin_of_text|>", *[*turn, "<|eot_id|>"] * len(prompt.messages), *turn]
            assert control_tokens(tiny, prompt.messages) == frame, ascii(text[:80])


@pytest.fixture(scope="module")
def babel() -> ChatTokenizer:
    """A vocabulary in which every special token spelt by a text is one, of whatever family, with ChatML's template."""
    chat = ChatTokenizer.load(Path(TINY))
    chat.tokenizer.add_special_tokens({"additional_special_tokens": [*SPECIAL, "### assistant:"]})
    turns = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    chat.tokenizer.chat_template = turns + "<|im_start|>assistant\n<think>"
    return ChatTokenizer(chat.tokenizer)


@pytest.mark.parametrize("shape", ["llm-eval", "insight"])
def test_special_tokens_of_every_family_stay_text_where_they_are_special(
    shape: str, judge_of: Callable[[str], Judge], babel: ChatTokenizer
) -> None:
    assert len(special_ids(babel)) >= len(SPECIAL)
    judge = judge_of(shape)
    for text in HOSTILE:
        for prompt in judge.render(sample_of(shape, text)).prompts:
            frame = [*["<|im_start|>", "<|im_end|>"] * len(prompt.messages), "<|im_start|>", "<think>", "</think>"]
            assert control_tokens(babel, prompt.messages) == frame, ascii(text[:80])


@pytest.mark.stress
def test_special_tokens_stay_text_in_the_vocabulary_of_mistral_nemo(tmp_path: Path, judge_of: Callable[[str], Judge]) -> None:
    """A real vocabulary of 131,072 tokens, a thousand of them special; reading its file takes ten seconds."""
    data = Path(pytest.importorskip("mistral_common").__file__).parent / "data" / "tekken_240911.json"
    if not data.exists():
        pytest.skip("this mistral_common has no such vocabulary")
    (tmp_path / "tekken.json").symlink_to(data)
    (tmp_path / "chat_template.jinja").write_text("<s>{% for m in messages %}[INST]{{ m['content'] }}[/INST]{% endfor %}")
    nemo = ChatTokenizer.load(tmp_path)
    assert len(special_ids(nemo)) == 1000
    for shape in SHORT[:2]:
        for text in HOSTILE:
            for prompt in judge_of(shape).render(sample_of(shape, text)).prompts:
                frame = ["<s>", *["[INST]", "[/INST]"] * len(prompt.messages)]
                assert control_tokens(nemo, prompt.messages) == frame, ascii(text[:80])


@pytest.mark.parametrize("shape", SAMPLES)
def test_a_text_given_as_the_answer_is_refused_or_is_a_legal_answer(shape: str, judge_of: Callable[[str], Judge]) -> None:
    judge = judge_of(shape)
    answers = len(judge.render(sample_of(shape, PLAIN + "s")).prompts)
    read = 0
    for text in HOSTILE:
        try:
            reading = judge.read(*[text] * answers)
        except AnswerError:
            continue
        check_scores(judge, reading.scores, reading.detail)
        assert isinstance(json.loads(text), dict)
        read += 1
    assert 0 < read < 10


def judge_all(loop: asyncio.Runner, engine: Engine, judge: Judge, shape: str, texts: Sequence[str]) -> list[Verdict]:
    """A verdict for each text, checked: legal scores wherever the prompts fit the context, none and the reason elsewhere."""
    assert isinstance(engine, VLLMEngine)
    questions = [prepare(Row(str(n), f"row {n}", sample_of(shape, text)), judge) for n, text in enumerate(texts)]

    async def run() -> list[Verdict]:
        return [verdict async for verdict in Runner(judge, engine).run(questions)]

    verdicts = sorted(loop.run(run()), key=lambda verdict: int(verdict.id))
    assert [verdict.id for verdict in verdicts] == [str(number) for number in range(len(texts))]
    fitting = 0
    for verdict, question, text in zip(verdicts, questions, texts, strict=True):
        assert question.rendered
        prompts = question.rendered.prompts
        lengths = [len(engine.chat.encode(prompt.messages)) + prompt.form.max_tokens for prompt in prompts]
        fits = max(lengths) <= engine.context
        fitting += fits
        if verdict.status == "scored":
            check_scores(judge, verdict.scores, verdict.detail)
            if isinstance(judge, Shrink):
                assert verdict.detail
                assert set(verdict.detail["chosen"]) <= set(range(1, 5))
        elif fits:
            assert isinstance(judge, Discovery | Insight), (verdict.reason, ascii(text[:80]))
            assert verdict.reason
            assert verdict.reason.startswith(NAMES_NOTHING), ascii(text[:80])
        else:
            assert verdict.reason
            assert verdict.reason.startswith("context overflow"), ascii(text[:80])
            assert verdict.scores is None
    scored = sum(verdict.status == "scored" for verdict in verdicts)
    if isinstance(judge, Discovery | Insight):
        assert fitting / 2 <= scored <= fitting
    else:
        assert scored == fitting
    assert fitting >= 0.8 * len(texts)
    return verdicts


@pytest.mark.parametrize("shape", SHORT)
def test_short_answers_to_hostile_samples_are_legal(
    shape: str, loop: asyncio.Runner, vllm_engine: Engine, judge_of: Callable[[str], Judge]
) -> None:
    judge_all(loop, vllm_engine, judge_of(shape), shape, spread(60))


@pytest.mark.parametrize("shape", LONG)
def test_written_answers_to_hostile_samples_are_legal(
    shape: str, loop: asyncio.Runner, vllm_engine: Engine, judge_of: Callable[[str], Judge]
) -> None:
    judge_all(loop, vllm_engine, judge_of(shape), shape, spread(6)[: LONG[shape]])


@pytest.mark.stress
@pytest.mark.parametrize("shape", SAMPLES)
def test_every_judge_stands_up_to_every_text(
    shape: str, loop: asyncio.Runner, vllm_engine: Engine, judge_of: Callable[[str], Judge]
) -> None:
    judge_all(loop, vllm_engine, judge_of(shape), shape, HOSTILE)
