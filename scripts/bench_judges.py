"""What every judge takes: valid verdicts, prompt tokens from the cache, calls, and the time to compile its constraint.

    .venv/bin/python scripts/bench_judges.py ../shared/data            every figure, as Markdown
    .venv/bin/python scripts/bench_judges.py ../shared/data --only compile

The folder holds the public data sets by name: dialogsum, dialsummeval, vicuna. Answers are a very small judge's, on real vLLM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from judges.affinity import Affinity
from judges.data.rows import Row
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Generation, Request
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.pattern_backend import compiler_for
from judges.engines.vllm.pattern_cache import PatternCache
from judges.engines.vllm.pattern_states import PatternGrammar, PatternStates
from judges.engines.vllm.settings import installed_version
from judges.engines.vocabulary import Speller
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.orders import Orders
from judges.pairwise import Pairwise
from judges.qualeval import Discovery, Insight
from judges.rubric import Rubric
from judges.runner import Runner, prepare
from judges.verdict import Verdict

MODEL = "tests/models/magistrate-tiny"
SEQUENCES = 64
GROUSE_ROOM = 96
"""Tokens for an answer. The model fills any room with idle reasons, so every answer is cut off in the first of them."""
ATTRIBUTES = (
    *("Health", "Food", "Work", "School", "Travel", "Shopping", "Family", "Housing", "Money", "Sports", "Film and music"),
    *("Technology", "Weather", "Law", "Small talk"),
)
RUBRIC = """
name = "summary-quality"
fields = ["dialogue", "summary"]
""" + "".join(
    f'[[metric]]\nname = "{name}"\ndescription = "How good is it?"\nscale = "1-5"\n'
    for name in ("consistency", "relevance", "fluency", "coherence")
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def grounded_answers(data: Path, count: int) -> list[dict[str, Any]]:
    """Summaries of a dialogue by two systems as answers grounded in it, in GroUSE's format."""
    rows = lines(data / "dialsummeval" / "human_judgment.jsonl")
    expected = {row["dialogue"]: row["summary"] for row in rows if row["model_id"] == "B"}
    return [
        {
            "input": "What is the dialogue about?",
            "references": row["dialogue"].split(" | ")[:10],
            "expected_output": f"{expected[row['dialogue']]} [1]",
            "actual_output": f"{row['summary']} [1]",
        }
        for row in rows
        if row["model_id"] != "B" and row["dialogue"] in expected
    ][:count]


def pairs(data: Path, count: int) -> list[dict[str, Any]]:
    """Vicuna's questions with the answers of two models."""
    first, second = (
        {row["question_id"]: row["text"] for row in lines(data / "vicuna" / "answer" / f"answer_{name}.jsonl")}
        for name in ("vicuna-13b", "alpaca-13b")
    )
    questions = lines(data / "vicuna" / "question.jsonl")[:count]
    return [
        {"question": row["turns"], "answer_a": first[row["question_id"]], "answer_b": second[row["question_id"]]}
        for row in questions
    ]


@dataclass
class Heard:
    """What a run of a judge took."""

    verdicts: list[Verdict] = field(default_factory=list)
    requests: list[tuple[Request, Generation]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def first_requests(self) -> list[tuple[Request, Generation]]:
        return [(request, answer) for request, answer in self.requests if not request.answer_start]

    def tokens(self) -> tuple[int, int]:
        """Prompt tokens of the questions themselves, and how many of them the cache served."""
        usages = [answer.usage for _, answer in self.first_requests]
        return sum(usage.prompt_tokens for usage in usages), sum(usage.cached_tokens for usage in usages)


class ModelPool:
    """An engine that notes every request."""

    def __init__(self) -> None:
        self.loop = asyncio.Runner()
        self.engine = VLLMEngine(MODEL, dtype="float32", max_num_seqs=SEQUENCES)
        self.loop.run(self.engine.start())

    def hear(self, judge: Judge, samples: Sequence[dict[str, Any]]) -> Heard:
        self.engine._engine.reset_prefix_cache()
        heard = Heard()
        generate = VLLMEngine.generate

        async def noted(request: Request) -> Generation:
            answer = await generate(self.engine, request)
            heard.requests.append((request, answer))
            return answer

        self.engine.generate = noted  # type: ignore[method-assign]
        rows = [Row(str(number), f"row {number}", sample) for number, sample in enumerate(samples)]

        async def run() -> None:
            async for verdict in Runner(judge, self.engine).run(prepare(row, judge) for row in rows):
                heard.verdicts.append(verdict)

        began = time.perf_counter()
        self.loop.run(run())
        heard.seconds = time.perf_counter() - began
        return heard

    def close(self) -> None:
        self.loop.run(self.engine.close())
        self.loop.close()


def bench_grouse(judge: ModelPool, data: Path, rounds: int) -> Iterator[str]:
    samples = grounded_answers(data, 200)
    heard = judge.hear(Grouse(max_tokens=GROUSE_ROOM), samples)
    scored = [verdict for verdict in heard.verdicts if verdict.status == "scored"]
    cut = [verdict for verdict in scored if verdict.recovered]
    asked = [request.messages for request, _ in heard.first_requests]
    yield f"| GroUSE, {len(samples)} samples: valid verdicts | 100% | {len(scored) / len(samples):.0%} |"
    yield f"| of these cut off by {GROUSE_ROOM} tokens and finished | | {len(cut)} |"
    yield f"| questions put again from the start | 0 | {len(asked) - len(samples)} |"
    yield f"| verdicts with a contradiction noted | | {sum('contradiction' in ' '.join(v.notes) for v in scored)} |"
    yield f"| seconds | | {heard.seconds:.0f} |"
    prompt, cached = judge.hear(Grouse(max_tokens=8), samples[:64]).tokens()
    yield f"| GroUSE, 64 samples: prompt tokens from the cache | at least 80% | {cached / prompt:.0%} |"


def bench_pairs(judge: ModelPool, data: Path, rounds: int) -> Iterator[str]:
    samples = pairs(data, 64)
    ratios = []
    for _ in range(rounds):
        computed = []
        for orders in get_args(Orders)[::-1]:
            prompt, cached = judge.hear(Pairwise(orders=orders, reasoning=False), samples).tokens()
            computed.append(prompt - cached)
        ratios.append(computed[1] / computed[0])
    yield f"| both orders over one: prompt tokens computed | at most 1.5 | {statistics.median(ratios):.2f} |"
    long = [sample | {"reference_answer": sample["answer_a"], "question": sample["answer_b"]} for sample in samples]
    computed = []
    for orders in get_args(Orders)[::-1]:
        prompt, cached = judge.hear(Pairwise(orders=orders, reasoning=False), long).tokens()
        computed.append(prompt - cached)
    yield f"| the same, question and reference as long as the answers | | {computed[1] / computed[0]:.2f} |"


def bench_affinity(judge: ModelPool, data: Path, rounds: int) -> Iterator[str]:
    samples = [{"input": row["dialogue"]} for row in lines(data / "dialogsum" / "dialogsum.dev.jsonl")[:500]]
    heard = judge.hear(Affinity(ATTRIBUTES, evidence="none"), samples)
    scored = sum(verdict.status == "scored" for verdict in heard.verdicts)
    yield f"| affinity, {len(samples)} instances x {len(ATTRIBUTES)} attributes: calls | {len(samples)} | {len(heard.requests)} |"
    yield f"| of these scored on every attribute | {len(samples)} | {scored} |"
    yield f"| instances a second | | {len(samples) / heard.seconds:.1f} |"


def judges(scratch: Path) -> dict[str, Judge]:
    (scratch / "rubric.toml").write_text(RUBRIC)
    return {
        "LLM-Eval": LLMEval(),
        "GroUSE, one prompt": Grouse(),
        "GroUSE, a prompt a metric (slowest)": Grouse(per_metric=True, prompts="card"),
        "pairwise": Pairwise(),
        f"affinity, {len(ATTRIBUTES)} attributes": Affinity(ATTRIBUTES),
        "rubric, 4 metrics": Rubric.load(scratch / "rubric.toml"),
        "discovery": Discovery(),
        "insight": Insight(),
    }


def bench_compile(_: Any, data: Path, rounds: int) -> Iterator[str]:
    """Compile each judge's constraint for a real vocabulary of 131,072 tokens, as each backend does inside vLLM."""
    from outlines_core import Index

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        tokenizer = _large_tokenizer(scratch)
        vocabulary = _outlines_vocabulary(tokenizer)
        began = time.perf_counter()
        fast = compiler_for(tokenizer, vocabulary)
        assert fast is not None
        fast("[a-z]")
        made = time.perf_counter() - began
        compilers = {"fast": fast, "xgrammar": _xgrammar(tokenizer), "guidance": _guidance(tokenizer)}
        yield "| judge | cold | from disk | MB | Outlines' own compiler | ratio | xgrammar | guidance |"
        yield "|---|---|---|---|---|---|---|---|"
        for name, judge in judges(scratch).items():
            slowest: dict[str, float] = {}
            size = 0.0
            for pattern in {form.pattern for form in judge.forms}:
                taken = {"outlines": _seconds(lambda pattern=pattern: Index(pattern, vocabulary))}  # type: ignore[misc]
                PatternCache("bench", scratch / "patterns")[f"0_{pattern}"] = Index(pattern, vocabulary)
                fresh = PatternCache("bench", scratch / "patterns")
                taken["disk"] = _seconds(lambda fresh=fresh, pattern=pattern: fresh[f"0_{pattern}"])  # type: ignore[misc]
                taken |= {
                    backend: _seconds(lambda make=make, pattern=pattern: make(pattern))  # type: ignore[misc]
                    for backend, make in compilers.items()
                }
                size = max(size, fresh._file(f"0_{pattern}").stat().st_size / 1e6)
                slowest = {key: max(value, slowest.get(key, 0.0)) for key, value in taken.items()}
            yield (
                f"| {name} | {slowest['fast']:.2f} s | {slowest['disk'] * 1e3:.0f} ms | {size:.1f} "
                f"| {slowest['outlines']:.2f} s | {slowest['outlines'] / slowest['fast']:.0f} "
                f"| {slowest['xgrammar']:.2f} s | {slowest['guidance']:.2f} s |"
            )
        yield f"\nOnce in a process, before the first: {made:.1f} s for the trie of the vocabulary."


OPENING = '{"reasoning": "The first'
"""The beginning of an answer of ``pairwise``."""


def bench_masks(_: Any, data: Path, rounds: int) -> Iterator[str]:
    """Write the mask of legal tokens at a step of an answer of `pairwise`, over a real vocabulary of 131,072 tokens."""
    from outlines_core import Guide

    with tempfile.TemporaryDirectory() as folder:
        tokenizer = _large_tokenizer(Path(folder))
    fast = compiler_for(tokenizer, _outlines_vocabulary(tokenizer))
    assert fast is not None
    index = fast(Pairwise().forms[0].pattern)
    speller = Speller(tokenizer)

    def fresh() -> PatternStates:
        return PatternStates(index, len(tokenizer), tokenizer.eos_token_id, speller)

    bits = torch.zeros((1, (len(tokenizer) + 31) // 32), dtype=torch.int32)
    yield "| state | Outlines' guide | first time | again |"
    yield "|---|---|---|---|"
    guide, grammar = Guide(index, max_rollback=0), PatternGrammar(fresh())
    for name, text in (("forced", ""), ("free text", OPENING)):
        for token in speller.encode(text.encode()):
            guide.advance(token)
            grammar.accept_tokens("", [token])
        first = _seconds(partial(fresh().forced, grammar.state))
        theirs, again = (
            statistics.median(_seconds(write) for _ in range(200))
            for write in (
                lambda: guide.write_mask_into(bits[0].data_ptr(), bits[0].numel(), 4),
                lambda: grammar.fill_bitmask(bits, 0),
            )
        )
        count = int(np.bitwise_count(bits.numpy().view(np.uint32)).sum())
        yield f"| {name}, {count:,} legal tokens | {theirs * 1e6:.1f} us | {first * 1e6:,.0f} us | **{again * 1e6:.1f} us** |"


def _large_tokenizer(scratch: Path) -> Any:
    """Mistral's tokenizer of 131,072 tokens."""
    import mistral_common

    tekken = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    (scratch / "tekken.json").symlink_to(tekken)
    (scratch / "chat_template.jinja").write_text("{{ messages[0].content }}")
    tokenizer = ChatTokenizer.load(scratch).tokenizer
    tokenizer.eos_token = "</s>"
    return tokenizer


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _outlines_vocabulary(tokenizer: Any) -> Any:
    from vllm.v1.structured_output.utils import get_outlines_vocabulary

    return get_outlines_vocabulary(tokenizer).inner


def _xgrammar(tokenizer: Any) -> Callable[[str], Any]:
    import xgrammar

    information = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=len(tokenizer))
    return lambda pattern: xgrammar.GrammarCompiler(information, max_threads=1, cache_enabled=False).compile_regex(pattern)


def _guidance(tokenizer: Any) -> Callable[[str], Any]:
    import llguidance
    import llguidance.hf

    known = llguidance.hf.from_tokenizer(tokenizer, len(tokenizer))

    def first_mask(pattern: str) -> Any:
        """It compiles as it goes: up to the first mask is what a first token waits for."""
        return llguidance.LLMatcher(known, llguidance.LLMatcher.grammar_from_regex(pattern)).compute_bitmask()

    return first_mask


BENCHES = {
    "grouse": bench_grouse,
    "pairs": bench_pairs,
    "affinity": bench_affinity,
    "compile": bench_compile,
    "masks": bench_masks,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of data sets")
    parser.add_argument("--only", choices=BENCHES, action="append", help="measure only this")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, vLLM {installed_version()}, {MODEL}\n")
    wanted = options.only or list(BENCHES)
    judge = ModelPool() if set(wanted) - {"compile", "masks"} else None
    for name in wanted:
        for line in BENCHES[name](judge, options.data, options.rounds):  # type: ignore[arg-type]
            print(line, flush=True)
        print(flush=True)
    if judge is not None:
        judge.close()


if __name__ == "__main__":
    main()
