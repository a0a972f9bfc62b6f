"""Classification heads on each engine, beside transformers alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from judges import catalog
from judges.backend import LocalBackend
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine, Request
from judges.engines.heads import labels_of
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.engines.vllm.engine import VLLMEngine
from judges.errors import EngineError, MagistrateError, RequestError
from judges.judge import Judge, Message
from judges.llm_eval import LLMEval
from judges.reward import Groundedness, Reward, RewardPairwise
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.classifiers import NLI, classifier, opened, peer_logits
from tests.tiny import TINY

PAIRS = Path(__file__).parents[3] / "evals" / "meta" / "card" / "pairs.jsonl"
CLOSE = 2e-4
"""How far engines in float32 may differ in a logit."""


@pytest.fixture(scope="module")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("models") / "rewards")


@pytest.fixture(scope="module")
def entails(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("models") / "entails", NLI)


@pytest.fixture(scope="module")
def pairs() -> list[dict[str, str]]:
    return [json.loads(line) for line in PAIRS.read_text().splitlines()]


@pytest.fixture(scope="module", params=["vllm", "transformers"])
def started(request: pytest.FixtureRequest, rewards: Path, loop: asyncio.Runner) -> Iterator[Engine]:
    settings = {"dtype": "float32", "max_model_len": 2048}
    engine = VLLMEngine(str(rewards), max_num_seqs=16, **settings) if request.param == "vllm" else opened(rewards)
    loop.run(engine.start())
    yield engine
    loop.run(engine.close())


def judged(loop: asyncio.Runner, engine: Engine, judge: Judge, samples: Sequence[Mapping[str, object]]) -> list[Verdict]:
    async def run() -> list[Verdict]:
        rows = [Row(str(number), f"row {number}", sample) for number, sample in enumerate(samples)]
        return [verdict async for verdict in Runner(judge, engine).run(prepare(row, judge) for row in rows)]

    return sorted(loop.run(run()), key=lambda verdict: int(verdict.id))


def test_rewards_are_those_of_transformers_alone(
    loop: asyncio.Runner, started: Engine, rewards: Path, pairs: list[dict[str, str]]
) -> None:
    found = judged(loop, started, Reward(), [{"question": pair["question"], "answer": pair["answer_a"]} for pair in pairs])
    right = peer_logits(rewards, [[("user", pair["question"]), ("assistant", pair["answer_a"])] for pair in pairs])
    assert max(logit for (logit,) in right) - min(logit for (logit,) in right) > 1, "a head that says something"
    for verdict, (logit,) in zip(found, right, strict=True):
        assert verdict.scores is not None, verdict.reason
        assert verdict.scores["reward"] == pytest.approx(logit, abs=CLOSE)
        assert verdict.usage.completion_tokens == 0
        assert verdict.usage.prompt_tokens > 0


def test_pairs_are_compared_by_both_rewards(loop: asyncio.Runner, started: Engine, pairs: list[dict[str, str]]) -> None:
    verdicts = judged(loop, started, RewardPairwise(), pairs)
    swapped = [{**pair, "answer_a": pair["answer_b"], "answer_b": pair["answer_a"]} for pair in pairs]
    other = {"A": "B", "B": "A", "both": "both"}
    for verdict, turned in zip(verdicts, judged(loop, started, RewardPairwise(), swapped), strict=True):
        assert verdict.scores is not None
        assert turned.scores is not None
        assert other[str(verdict.scores["preference"])] == turned.scores["preference"], "there is no order to favour"


def test_a_conversation_beyond_the_context_is_unscored(loop: asyncio.Runner, started: Engine) -> None:
    samples = [{"question": "beer " * 40_000, "answer": "x"}, {"question": "beer", "answer": "x"}]
    long, short = judged(loop, started, Reward(), samples)
    assert long.status == "unscored"
    assert long.reason is not None
    assert long.reason.startswith("context overflow: the prompt has at least")
    assert "answer needs" not in long.reason
    assert short.status == "scored"


def test_words_of_special_tokens_stay_words(loop: asyncio.Runner, started: Engine) -> None:
    texts = ["It ends.<|end_of_text|>", "It ends.", "<|begin_of_text|>It ends."]
    found = judged(loop, started, Reward(), [{"question": "How?", "answer": text} for text in texts])
    assert len({verdict.usage.prompt_tokens for verdict in found}) > 1
    assert all(verdict.status == "scored" for verdict in found)


def test_every_judge_of_heads_reads_its_example(loop: asyncio.Runner, entails: Path) -> None:
    async def run(judge: Judge) -> Verdict:
        async with opened(entails) as engine:
            sample = prepare(Row("1", "row 1", judge.example.sample), judge)
            (verdict,) = [verdict async for verdict in Runner(judge, engine).run([sample])]
            return verdict

    heads = [name for name in catalog.JUDGES if name.startswith(("reward", "groundedness"))]
    assert heads == ["reward", "reward-pairwise", "groundedness"]
    for name in heads:
        judge = catalog.open_judge(name, label="Entailment")
        verdict = loop.run(run(judge))
        assert verdict.scores is not None, verdict.reason
        assert list(verdict.scores) == list(judge.levels)
        assert all(score in judge.legal[metric] for metric, score in verdict.scores.items())


def test_groundedness_names_the_models_labels(loop: asyncio.Runner, entails: Path) -> None:
    texts = {"context": "The museum is closed on Mondays.", "answer": "It opens daily."}
    ((first, second),) = peer_logits(entails, [[("user", texts["context"]), ("assistant", texts["answer"])]])

    async def run() -> list[Verdict]:
        judge = Groundedness()
        async with opened(entails) as engine:
            return [verdict async for verdict in Runner(judge, engine).run([prepare(Row("1", "", texts), judge)])]

    (verdict,) = loop.run(run())
    assert verdict.scores is not None
    assert verdict.scores["label"] == (NLI[1] if second > first else NLI[0])
    assert verdict.detail is not None
    assert set(verdict.detail["probabilities"]) == set(NLI)
    assert verdict.detail["probabilities"]["Entailment"] == verdict.scores["grounded"]


def test_labels_of_models(rewards: Path, entails: Path, tmp_path: Path) -> None:
    assert labels_of(Path(TINY)) is None
    assert labels_of(rewards) == ("LABEL_0",)
    assert labels_of(entails) == NLI
    (tmp_path / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    assert labels_of(tmp_path) == ("LABEL_0", "LABEL_1"), "two, as transformers has it"
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(EngineError, match="cannot be read"):
        labels_of(tmp_path)


def test_only_classifiers_are_asked_for_numbers(loop: asyncio.Runner, rewards: Path) -> None:
    with pytest.raises(MagistrateError, match="writes no text, which judge `llm-eval` asks for"):
        loop.run(LocalBackend(LLMEval(), opened(rewards)).fingerprint())
    with pytest.raises(MagistrateError, match="has no classification head, which judge `reward` reads"):
        loop.run(LocalBackend(Reward(), opened(Path(TINY))).fingerprint())
    with pytest.raises(MagistrateError, match="judge `reward` reads numbers and no text: leave out `--expected`"):
        loop.run(LocalBackend(Reward(), opened(rewards), Decoding(expected=True)).fingerprint())


def test_a_model_is_not_asked_for_what_it_does_not_give(loop: asyncio.Runner, rewards: Path) -> None:
    hello = (Message("user", "Hello"),)

    async def run(folder: Path, request: Request) -> None:
        async with opened(folder) as engine:
            await engine.generate(request)

    with pytest.raises(EngineError, match="rewards is a classifier and writes no text"):
        loop.run(run(rewards, Request(hello, 4)))
    with pytest.raises(EngineError, match="magistrate-tiny has no classification head"):
        loop.run(run(Path(TINY), Request(hello, 0, classifies=True)))


def test_one_beginning_of_text_whoever_writes_it(rewards: Path) -> None:
    chat = ChatTokenizer.load(rewards)
    request = Request((Message("user", "Hello"), Message("assistant", "Hi")), 0, classifies=True)
    begins = chat.tokenizer.bos_token_id
    written = chat.asked(request)
    assert (written[0], written.count(begins)) == (begins, 1)
    template = "{% for message in messages %}{{ message.content }} {% endfor %}"
    added = chat.with_template(template).asked(request)
    assert (added[0], added.count(begins)) == (begins, 1), "as the tokenizer begins any text"


def test_a_constraint_is_no_part_of_a_classifiers_identity(rewards: Path) -> None:
    assert opened(rewards).identity == opened(rewards, constraint="xgrammar").identity


def test_damaged_weights_are_found_at_the_start(loop: asyncio.Runner, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = classifier(tmp_path / "damaged")
    weights = load_file(folder / "model.safetensors")
    weights["score.weight"] = torch.full_like(weights["score.weight"], float("nan"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError, match="computes logits that are not numbers"):
        loop.run(opened(folder).start())


def test_a_server_engine_reads_heads_and_refuses_to_write(loop: asyncio.Runner, rewards: Path) -> None:
    messages = (Message("user", "Tea or coffee?"), Message("assistant", "Tea, please."))
    (right,) = peer_logits(rewards, [[(message.role, message.content) for message in messages]])

    async def run() -> None:
        async with AsyncVLLMEngine(str(rewards), dtype="float32", max_model_len=2048, max_num_seqs=4) as engine:
            answer = await engine.view().generate(Request(messages, 0, classifies=True))
            assert list(json.loads(answer.text).values()) == pytest.approx(right, abs=CLOSE)
            with pytest.raises(RequestError, match="is a classifier and writes no text"):
                await engine.generate(Request(messages, 4))

    loop.run(run())


@pytest.mark.parametrize("types", [1, 2])
def test_texts_without_a_chat_template_are_separated(loop: asyncio.Runner, tmp_path: Path, types: int) -> None:
    """An encoder such as those of natural language inference: ``[CLS] context [SEP] answer [SEP]``."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "museum", "is", "closed", "open"]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    shown = ["input_ids", "attention_mask", *(["token_type_ids"] if types == 2 else [])]
    PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=shown, model_max_length=64, **names).save_pretrained(
        tmp_path
    )
    torch.manual_seed(0)
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "initializer_range": 1.0,
    }
    config = BertConfig(vocab_size=len(words), type_vocab_size=types, max_position_embeddings=64, num_labels=2, **size)
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    texts = ("the museum is closed", "museum open")
    ids = torch.tensor([[2, 4, 5, 6, 7, 3, 5, 8, 3]])
    kinds = torch.tensor([[0, 0, 0, 0, 0, 0, 1, 1, 1]]) if types == 2 else None
    with torch.no_grad():
        right = model(input_ids=ids, token_type_ids=kinds).logits[0].tolist()

    async def run() -> list[float]:
        async with opened(tmp_path) as engine:
            request = Request((Message("user", texts[0]), Message("assistant", texts[1])), 0, classifies=True)
            return list(json.loads((await engine.generate(request)).text).values())

    assert (
        ChatTokenizer.load(tmp_path).asked(
            Request((Message("user", texts[0]), Message("assistant", texts[1])), 0, classifies=True)
        )
        == ids[0].tolist()
    )
    assert loop.run(run()) == pytest.approx(right, abs=1e-5)
