"""Train magistrate-tiny, the judge that ships with Magistrate, from nothing, on two CPU cores, in half an hour.

    python scripts/train_tiny_judge.py --data ../shared/data/dialogsum --output judges/models/magistrate-tiny

It sees DialogSum's training dialogues and no human rating: a score follows from how a reply was made (a true next turn, a
turn of another dialogue, words out of order, an echo, ...). Each batch is a forest: all prompts share the instructions,
all replies to one context share the context, and what is shared is computed once. The attention mask keeps replies apart.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from judges.llm_eval import FOUR_METRICS, LLMEval

BOS, EOS, PAD, EOT = "<|begin_of_text|>", "<|end_of_text|>", "<|finetune_right_pad_id|>", "<|eot_id|>"
SPECIAL_TOKENS = [BOS, EOS, PAD, "<|start_header_id|>", "<|end_header_id|>", EOT]
# Llama 3's pre-tokenizer: a score is a token of its own, whatever stands beside it.
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CHAT_TEMPLATE = (
    "{{- bos_token }}{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
GENERIC = (  # noqa: SIM905
    "ok .|yes .|no .|i don't know .|sure .|i see .|thank you .|that's great !|really ?|me too .|i'm not sure .|i think so .|"
    "yes , i do .|oh , that is nice .|what do you mean ?|i like it too .|that's interesting .|of course .|well , i guess so ."
).split("|")
WRONG_FORMS = {
    "is": "are", "are": "is", "was": "were", "were": "was", "do": "does", "does": "do", "has": "have", "have": "has",
    "i": "me", "he": "him", "she": "her", "they": "them", "a": "an", "an": "a", "don't": "doesn't", "it's": "its",
}  # fmt: skip
OTHER_METRICS = {
    "engaging": ("content", "how interesting the response is"),
    "informativeness": ("content", "how much the response says"),
    "fluency": ("grammar", "whether the response reads well"),
    "naturalness": ("appropriateness", ""),
    "coherence": ("relevance", "whether the response follows from the context"),
    "overall": ("overall", "overall quality of the response"),
}
SCHEMA_SHARES = {"four": 0.78, "other": 0.12, "hundred": 0.04, "dialogue": 0.06}
SKELETON_WEIGHT, LANGUAGE_WEIGHT, PROBE_WEIGHT = 0.03, 0.05, 0.5
REPLIES, PLACES = 6, 3400
VOCABULARY, WIDTH, LAYERS, HEADS, HEAD, INNER = 4096, 256, 3, 4, 32, 512
# Of the WIDTH dimensions: the first TOPIC hold a token's topic, the next TOPIC the mean topic so far, the last six these.
TOPIC, VERDICT, MARKER, IN_REPLY, BELONGS, CONSTANT, RARITY = 96, 250, 251, 252, 253, 254, 255

Turns = list[str]
Scores = dict[str, int]
Similarity = Callable[[str, str], float]


@dataclass(frozen=True)
class Setting:
    """What is asked: a judge, and for each of its metrics the quality that answers it."""

    judge: LLMEval
    qualities: dict[str, str]
    whole_dialogue: bool = False


@dataclass
class Tree:
    """One context and some replies to it: LLM-Eval samples with their scores and how each reply was made."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, sample: dict[str, Any], scores: Scores, kind: str) -> None:
        self.samples.append(sample)
        self.scores.append(scores)
        self.kinds.append(kind)


def read_dialogues(path: Path) -> list[Turns]:
    """Dialogues of a DialogSum file, each a list of turns without speaker tags; those under four turns are left out."""
    dialogues = []
    for line in path.read_text(encoding="utf-8").splitlines():
        turns = [re.sub(r"^#Person\d#:\s*", "", turn).strip() for turn in json.loads(line)["dialogue"].split("\n")]
        dialogues.append([turn for turn in turns if turn])
    return [turns for turns in dialogues if len(turns) >= 4]


def restyle(text: str, style: str) -> str:
    """Text in a corpus's spelling: ``s`` spaces round punctuation, ``a`` round apostrophes too, ``l`` lower case."""
    if "a" in style:
        text = re.sub(r"(['’])", r" \1 ", text)
    elif "s" in style:
        text = re.sub(r"n['’]t\b", " n't", text)
        text = re.sub(r"(?<=\w)(['’](?:s|m|re|ve|ll|d)\b)", r" \1", text)
    if "s" in style:
        text = " ".join(re.sub(r"([.,!?;:()\"]+)", r" \1 ", text).split())
    return text.lower() if "l" in style else text


def random_style(rng: random.Random) -> str:
    return rng.choices(["", "l", "s", "ls", "sa", "lsa"], [30, 12, 18, 28, 8, 4])[0]


def train_tokenizer(dialogues: Sequence[Turns]) -> PreTrainedTokenizerFast:
    """Byte-level BPE with Llama 3's special tokens, in which each integer from 0 to 100 is one token."""

    def corpus() -> Iterator[str]:
        rng = random.Random(0)
        for turns in dialogues:
            yield "\n".join(restyle(turn, "ls" if rng.random() < 0.4 else "") for turn in turns)
        rendered = [
            LLMEval(scale=scale).render({"context": "", "response": ""}).prompts[0].messages[0].content
            for scale in ("0-5", "0-100")
        ]
        yield from rendered * 400
        yield from [" ".join(map(str, range(101)))] * 2000
        yield from [f"user {name} assistant" for name in OTHER_METRICS] * 200

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL_TOKENS, initial_alphabet=alphabet, show_progress=False),
    )
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, backend.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=BOS, eos_token=EOT, pad_token=PAD, chat_template=CHAT_TEMPLATE,
        model_max_length=8192, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def cooccurrence_vectors(dialogues: Sequence[Turns], tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Token vectors of shape (vocabulary, WIDTH): positive PMI within a turn and with its neighbours, factored by SVD.

    Source: Levy, Goldberg and Dagan 2015, "Improving Distributional Similarity with Lessons Learned from Word Embeddings":
    context counts to the power 0.75, singular values to the power 0.5.
    """
    rng = random.Random(1)
    size = len(tokenizer)
    counts = np.zeros((size, size), dtype=np.float32)
    for turns in dialogues:
        style = random_style(rng)
        encoded = tokenizer.backend_tokenizer.encode_batch([" " + restyle(turn, style) for turn in turns])
        bags = [np.unique(np.array(encoding.ids[1:], dtype=np.int64)) for encoding in encoded]
        for here, bag in enumerate(bags):
            for distance, weight in ((0, 0.5), (1, 1.0), (2, 0.5)):
                if here + distance < len(bags):
                    counts[np.ix_(bag, bags[here + distance])] += weight
    joint = torch.from_numpy(counts + counts.T)
    joint.fill_diagonal_(0.0)
    smoothed = joint.sum(0) ** 0.75
    expected = joint.sum(1, keepdim=True) * (smoothed / smoothed.sum())
    mutual = torch.log((joint / expected.clamp_min(1e-6)).clamp_min(1.0))
    left, singular, _ = torch.svd_lowrank(mutual, q=WIDTH, niter=6)
    return left * singular.sqrt()


def token_weights(dialogues: Sequence[Turns], tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """How much each token tells of a topic, near 0 for frequent ones and 1 for rare: a / (a + p), a = 1e-4.

    Source: Arora, Liang and Ma 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings".
    """
    encoded = tokenizer.backend_tokenizer.encode_batch([" ".join(turns) for turns in dialogues])
    tokens = torch.tensor([token for encoding in encoded for token in encoding.ids])
    frequency = torch.bincount(tokens, minlength=len(tokenizer))
    return 1e-4 / (1e-4 + frequency / frequency.sum())


def centred(vectors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Vectors less their mean in running text, as weighted: what all texts share tells none from another."""
    share = (1 - weights) * (weights < 1)
    return vectors - (share[:, None] * vectors).sum(0) / share.sum()


def topical_similarity(tokenizer: PreTrainedTokenizerFast, vectors: torch.Tensor, weights: torch.Tensor) -> Similarity:
    """The cosine of two texts' weighted token vectors."""
    units = torch.nn.functional.normalize(centred(vectors[:, :TOPIC], weights), dim=1)
    weighted = units * weights[:, None]

    def summed(text: str) -> torch.Tensor:
        return weighted[tokenizer.encode(" " + text)[1:] or [0]].sum(0)

    return lambda first, second: float(torch.nn.functional.cosine_similarity(summed(first), summed(second), dim=0))


class Maker:
    """Makes samples with scores from dialogues alone.

    Args:
        dialogues: Turns without tags.
        similarity: Topical similarity of two texts, which tells a near miss from a far one among random replies.
    """

    def __init__(self, dialogues: Sequence[Turns], similarity: Similarity, seed: int) -> None:
        self.dialogues = dialogues
        self.similarity = similarity
        self.rng = random.Random(seed)
        documents = Counter(word for turns in dialogues for word in set(words_of(" ".join(turns))))
        self.rarity = {word: math.log(len(dialogues) / count) for word, count in documents.items()}
        self.vocabulary = sorted(word for word, count in documents.items() if count > 20)
        sample = random.Random(0).sample(range(len(dialogues)), min(800, len(dialogues)))
        masses = np.array([self.mass(turn) for index in sample for turn in dialogues[index]])
        self.content_steps = np.quantile(masses, (0.08, 0.22, 0.42, 0.65, 0.85))
        pairs = [(self.rng.choice(self.pick()), " ".join(self.pick()[-4:])) for _ in range(400)]
        self.near = float(np.quantile([similarity(a, b) for a, b in pairs], 0.7))
        self.far = float(np.quantile([similarity(a, b) for a, b in pairs], 0.35))

    def pick(self) -> Turns:
        return self.rng.choice(self.dialogues)

    def mass(self, text: str) -> float:
        """How much a text says: the summed inverse document frequency of its distinct words, in nats."""
        return math.fsum(min(self.rarity.get(word, 5.0), 5.0) for word in set(words_of(text)))

    def break_grammar(self, text: str, grammar: int) -> str:
        """Text with words dropped, repeated, swapped, misplaced or misformed; the lower ``grammar``, the more of them."""
        words, rng = text.split(), self.rng
        if grammar == 0:
            rng.shuffle(words)
            return " ".join(words)
        for _ in range(max(1, round(len(words) * (0, 0.6, 0.38, 0.2, 0.08)[grammar]))):
            at = rng.randrange(len(words))
            match rng.randrange(6):
                case 0 if len(words) > 3:
                    del words[at]
                case 1:
                    words.insert(at, words[at])
                case 2:
                    words.insert(at, rng.choice(self.vocabulary))
                case 3:
                    words.insert(rng.randrange(len(words)), words.pop(at))
                case 4 if any(word.lower() in WRONG_FORMS for word in words):
                    at = rng.choice([i for i, word in enumerate(words) if word.lower() in WRONG_FORMS])
                    words[at] = WRONG_FORMS[words[at].lower()]
                case _:
                    at = min(at, len(words) - 2)
                    words[at : at + 2] = reversed(words[at : at + 2])
        return " ".join(words)

    def scored(self, text: str, relevance: int, fitness: int, grammar: int, *, said_before: bool = False) -> Scores:
        """The four scores of a reply, each 0 to 5, and their mean; ``fitness`` bounds appropriateness."""
        mass = self.mass(text)
        content = int(np.searchsorted(self.content_steps, mass))
        if mass < self.content_steps[1]:  # A short reply fits almost anywhere: neither right nor wrong.
            relevance, fitness = (relevance + 3) // 2, (fitness + 4) // 2
        content -= (grammar <= 2) + (relevance <= 1)
        relevance -= grammar <= 1
        scores = {
            "content": min(content, 2) if said_before else content,
            "grammar": grammar,
            "relevance": relevance,
            "appropriateness": min(fitness, grammar + 1),
        }
        scores = {name: max(0, min(5, score)) for name, score in scores.items()}
        return scores | {"overall": round(sum(scores.values()) / 4)}

    def reply(self, kind: str, turns: Turns, here: int, start: int) -> tuple[str, Scores] | None:
        """A reply to ``turns[start:here]`` made as ``kind`` says, and its scores; ``None`` where the dialogue has none."""
        rng, grammar, said_before = self.rng, 5, False
        match kind:
            case "true":
                text, relevance, fitness = turns[here], 5, 5
            case "random":
                text = rng.choice(self.pick())
                likeness = self.similarity(text, " ".join(turns[max(start, here - 4) : here]))
                relevance = fitness = (likeness > self.far) + (likeness > self.near)
            case "later":
                if here + 2 >= len(turns):
                    return None
                there = rng.randrange(here + 2, len(turns))
                text, relevance, fitness = turns[there], 4 if there - here < 4 else 3, 3 if there - here < 4 else 2
            case "echo":
                text, relevance, fitness, said_before = turns[rng.randrange(start, here)], 3, 1, True
                if rng.random() < 0.5:
                    text = turns[here - 1]
            case "generic":
                text, relevance, fitness = rng.choice(GENERIC), 2, 3
            case "cut":
                words = turns[here].split()
                if len(words) < 6:
                    return None
                text = " ".join(words[: rng.randrange(2, 2 + len(words) // 2)])
                relevance, fitness, grammar = 4, 3, 3
            case _:
                words = turns[here].split()
                if len(words) < 5:
                    return None
                at = rng.randrange(len(words) - 3)
                text = " ".join(words[: at + 3] + words[at : at + 3] * rng.randrange(1, 4))
                relevance, fitness, grammar = 3, 2, 2
        if kind in ("true", "random", "later") and len(text.split()) >= 4 and rng.random() < 0.4:
            grammar = rng.randrange(5)
            text = self.break_grammar(text, grammar)
        return text, self.scored(text, relevance, fitness, grammar, said_before=said_before)

    def tree(self, setting: Setting) -> Tree:
        """A context from some dialogue with up to ``REPLIES`` replies, of which the first is the true one."""
        if setting.whole_dialogue:
            return self.dialogue_tree(REPLIES // 2)
        rng, tree = self.rng, Tree()
        turns = self.pick()
        here = rng.randrange(1, len(turns))
        start = max(0, here - rng.choice((1, 2, 3, 4, 4, 6, 8, 30)))
        style = random_style(rng)
        context: list[str] | str = [restyle(turn, style) for turn in turns[start:here]]
        if rng.random() < 0.12:
            context = [f"#Person{1 + at % 2}#: {turn}" for at, turn in enumerate(context)]
        elif rng.random() < 0.1:
            context = " ".join(context)
        reference = self.reference(turns, here) if rng.random() < 0.45 else None
        kinds = ["true", "true", "random", "random", "later"]
        kinds += rng.choices(["echo", "generic", "cut", "stutter", "random", "later"], [2, 1.5, 1, 1, 2, 1], k=REPLIES)
        for kind in kinds[:REPLIES]:
            made = self.reply(kind, turns, here, start)
            if made is None:
                continue
            text = restyle(made[0], style if rng.random() < 0.8 else random_style(rng))
            sample: dict[str, Any] = {"context": context, "response": text}
            if reference is not None:
                sample["reference"] = restyle(reference, style)
            tree.add(sample, made[1], kind)
        return tree

    def reference(self, turns: Turns, here: int) -> str:
        """The true next turn; or with words left out, or the turn after it, as a good reply need not repeat the reference."""
        words = turns[here].split()
        chance = self.rng.random()
        if chance < 0.3 and len(words) > 5:
            return " ".join(word for word in words if self.rng.random() < 0.6) or turns[here]
        return turns[here + 1] if chance < 0.55 and here + 1 < len(turns) else turns[here]

    def dialogue_tree(self, variants: int) -> Tree:
        """One dialogue, and the same with some turns replaced by turns of others or broken."""
        rng, tree, style = self.rng, Tree(), random_style(self.rng)
        turns = self.pick()[: rng.randrange(3, 8)]
        for variant in range(variants):
            foreign, broken = (0.0, 0.0) if variant == 0 else (rng.choice((0, 0.3, 0.6, 1)), rng.choice((0, 0.4, 0.8)))
            grammars = [rng.randrange(4) if rng.random() < broken and len(turn.split()) > 3 else 5 for turn in turns]
            strange = [at > 0 and rng.random() < foreign for at in range(len(turns))]
            spoken = [rng.choice(self.pick()) if odd else turn for odd, turn in zip(strange, turns, strict=True)]
            spoken = [
                self.break_grammar(turn, grammar) if grammar < 5 and len(turn.split()) > 3 else turn
                for turn, grammar in zip(spoken, grammars, strict=True)
            ]
            grammar, relevance = round(sum(grammars) / len(turns)), 5 - round(5 * sum(strange) / len(turns))
            scores = self.scored(max(spoken, key=len), relevance, relevance, grammar)
            tree.add({"dialogue": [restyle(turn, style) for turn in spoken]}, scores, "dialogue")
        return tree

    def setting(self) -> Setting:
        """Mostly the four metrics from 0 to 5; sometimes others, other descriptions, 0 to 100, or whole dialogues."""
        rng = self.rng
        share = rng.choices(list(SCHEMA_SHARES), list(SCHEMA_SHARES.values()))[0]
        if share in ("four", "dialogue"):
            return Setting(LLMEval(), dict(zip(FOUR_METRICS, FOUR_METRICS, strict=True)), share == "dialogue")
        if share == "hundred":
            return Setting(LLMEval(scale="0-100"), dict(zip(FOUR_METRICS, FOUR_METRICS, strict=True)))
        known = {name: (name, "") for name in FOUR_METRICS} | OTHER_METRICS
        names = rng.sample(list(known), rng.randrange(1, 5))
        described = rng.random() < 0.5
        metrics = {name: known[name][1] if described else "" for name in names}
        return Setting(LLMEval(metrics), {name: known[name][0] for name in names})


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


class Encoder:
    """Turns trees into tokens: prompts through the judge's own ``render`` and the tokenizer's own chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self.ids = lru_cache(maxsize=None)(self._ids)

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def answer(self, setting: Setting, scores: Scores, rng: random.Random) -> tuple[list[int], list[int]]:
        """Token ids of the JSON answer with the end of turn, and 1 for each token of a score, 0 for the others."""
        ids: list[int] = []
        is_score: list[int] = []
        for at, metric in enumerate(setting.judge.metrics):
            score = scores[setting.qualities[metric]]
            if setting.judge.highest == 100:
                score = max(0, min(100, 20 * score + rng.randrange(-8, 9)))
            for text, mark in ((f'{", " if at else "{"}"{metric}": ', 0), (str(score), 1)):
                ids += self.ids(text)
                is_score += [mark] * len(self.ids(text))
        end = self.ids("}" + EOT)
        return ids + list(end), is_score + [0] * len(end)

    def prompts(self, setting: Setting, tree: Tree) -> list[list[int]]:
        texts = []
        for sample in tree.samples:
            messages = [
                {"role": message.role, "content": message.content} for message in setting.judge.render(sample).prompts[0].messages
            ]
            texts.append(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        return [encoding.ids for encoding in self.tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)]


@dataclass
class Forest:
    """A batch. Shapes: ``prefix`` (1, P); ``ids``, ``positions``, ``weights`` (B, T); ``mask`` (B, 1, T, P + T), additive.

    ``targets`` (B, T) is the token that each place must predict and ``weights`` its weight in the loss; ``scores`` lists
    (row, place, branch, metric index) of each place that predicts a score. ``fits`` (B, T) is a reply's relevance at each of
    its tokens, -1 elsewhere.
    """

    prefix: torch.Tensor
    ids: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    mask: torch.Tensor
    fits: torch.Tensor
    scores: list[tuple[int, int, int, int]]


Grown = tuple[Tree, list[list[int]]]
"""A tree and its prompts' token ids."""


def common_prefix(sequences: Sequence[list[int]]) -> int:
    """How many tokens all sequences begin with."""
    shortest, longest = min(sequences), max(sequences)
    length = min(len(shortest), len(longest))
    return next((at for at in range(length) if shortest[at] != longest[at]), length)


def plant(setting: Setting, trees: Sequence[Grown], encoder: Encoder, rng: random.Random, prefix: int) -> Forest:
    """Lay out trees as rows of [context | reply 1 | reply 2 | ...] after one shared prefix of ``prefix`` tokens."""
    rows, scores = [], []
    for row, (tree, prompts) in enumerate(trees):
        trunk = min(common_prefix(prompts), min(map(len, prompts)) - 1)
        ids = prompts[0][prefix:trunk]
        positions = list(range(prefix, trunk))
        owner, targets = [0] * len(ids), [*ids[1:], 0][: len(ids)]
        weights = [LANGUAGE_WEIGHT] * max(0, len(ids) - 1) + [0.0] * min(1, len(ids))
        fits = [-1] * len(ids)
        for branch, (prompt, made) in enumerate(zip(prompts, tree.scores, strict=True), start=1):
            answer, is_score = encoder.answer(setting, made, rng)
            # The scores it has just given say nothing here, so that each score is read off the sample, not off the last one.
            blind = [
                encoder.ids(str(rng.randrange(setting.judge.highest + 1)))[0] if mark else token
                for token, mark in zip(answer, is_score, strict=True)
            ]
            tail = prompt[trunk:] + blind
            language = LANGUAGE_WEIGHT if tree.kinds[branch - 1] == "true" and made["grammar"] == 5 else 0.0
            weight = [language] * (len(tail) - len(answer) - 1)
            weight += [1.0 if mark else SKELETON_WEIGHT for mark in is_score] + [0.0]
            first = len(ids) + len(tail) - len(answer) - 1
            places = [first + at for at, mark in enumerate(is_score) if mark]
            scores += [(row, place, branch - 1, at) for at, place in enumerate(places)]
            ids += tail
            positions += range(trunk, trunk + len(tail))
            owner += [branch] * len(tail)
            targets += [*prompt[trunk + 1 :], *answer, 0]
            weights += weight
            fits += [made["relevance"]] * (len(tail) - len(answer)) + [-1] * len(answer)
        rows.append((ids, positions, owner, targets, weights, fits))
    size = max(len(row[0]) for row in rows)

    def padded(column: int, fill: float) -> list[list[float]]:
        return [[*row[column], *[fill] * (size - len(row[column]))] for row in rows]

    owners = torch.tensor(padded(2, -1))
    seen = (owners[:, None, :] == owners[:, :, None]) | (owners[:, None, :] == 0)
    seen &= torch.ones(size, size, dtype=torch.bool).tril()
    mask = torch.zeros(len(rows), 1, size, prefix + size)
    mask[:, 0, :, prefix:].masked_fill_(~seen, torch.finfo(torch.float32).min)
    return Forest(
        torch.tensor([prompts[0][:prefix]]),
        torch.tensor(padded(0, 0)), torch.tensor(padded(1, 0)), torch.tensor(padded(3, 0)), torch.tensor(padded(4, 0.0)),
        mask, torch.tensor(padded(5, -1)), scores,
    )  # fmt: skip


def hidden_states(model: LlamaForCausalLM, forest: Forest) -> torch.Tensor:
    """Last hidden states (B, T, width). The prefix is computed once and its keys and values are lent to every row."""
    past = model.model(input_ids=forest.prefix, use_cache=True).past_key_values
    past.batch_repeat_interleave(len(forest.ids))
    states: torch.Tensor = model.model(
        input_ids=forest.ids,
        attention_mask=forest.mask,
        position_ids=forest.positions,
        past_key_values=past,
        use_cache=True,
    ).last_hidden_state
    return states


def loss_of(model: LlamaForCausalLM, probe: torch.nn.Linear, forest: Forest) -> torch.Tensor:
    """Weighted cross-entropy in nats over the places that have a weight; scores weigh most.

    ``probe`` reads relevance off each token of a reply. It is thrown away after training: without it only the answer's
    one token says whether a reply fits, and that takes the model far longer to find.
    """
    chosen = forest.weights > 0
    states = hidden_states(model, forest)
    logits = model.lm_head(states[chosen])
    losses = torch.nn.functional.cross_entropy(logits, forest.targets[chosen], reduction="none")
    weights = forest.weights[chosen]
    replies = forest.fits >= 0
    fit = torch.nn.functional.cross_entropy(probe(states[replies]), forest.fits[replies])
    return (losses * weights).sum() / weights.sum() + PROBE_WEIGHT * fit


def cut(maker: Maker, encoder: Encoder, setting: Setting, many: int) -> tuple[int, list[list[Grown]]]:
    """``many`` trees of one setting, cut by length into batches of about ``PLACES`` tokens, and the prefix they share."""
    probes = [{"context": text, "dialogue": text if setting.whole_dialogue else None, "response": ""} for text in "a7"]
    prefix = common_prefix(encoder.prompts(setting, Tree(probes)))
    trees = [tree for tree in (maker.tree(setting) for _ in range(many)) if len(tree.samples) > 1]

    def length(grown: Grown) -> int:
        trunk = common_prefix(grown[1])
        return trunk - prefix + sum(len(prompt) - trunk + 30 for prompt in grown[1])

    cuts: list[list[Grown]] = [[]]
    for grown in sorted([(tree, encoder.prompts(setting, tree)) for tree in trees], key=length):
        if cuts[-1] and (len(cuts[-1]) + 1) * length(grown) > PLACES:
            cuts.append([])
        cuts[-1].append(grown)
    return prefix, cuts


def batches(maker: Maker, encoder: Encoder) -> Iterator[Forest]:
    """Batches without end, mixed over settings and lengths."""
    while True:
        planned = []
        for _ in range(24):
            setting = maker.setting()
            rare = setting.judge.highest == 100 or setting.whole_dialogue or bool(set(setting.qualities) - set(FOUR_METRICS))
            prefix, cuts = cut(maker, encoder, setting, 10 if rare else 64)
            planned += [(setting, part, prefix) for part in cuts]
        maker.rng.shuffle(planned)
        for setting, part, prefix in planned:
            yield plant(setting, part, encoder, maker.rng, prefix)


def wire(parameter: torch.Tensor, rows: Any, columns: Any, value: torch.Tensor | float) -> None:
    """Set part of a weight and keep it so: training gives it no gradient."""
    with torch.no_grad():
        kept = torch.zeros_like(parameter, dtype=torch.bool)
        kept[rows, columns] = True
        parameter[rows, columns] = value
    parameter.register_hook(lambda gradient: gradient.masked_fill(kept, 0.0))


def new_model(tokenizer: PreTrainedTokenizerFast, vectors: torch.Tensor, weights: torch.Tensor) -> LlamaForCausalLM:
    """An untrained judge that can already tell whether a reply's words belong with the words of its context.

    From scratch a model of this size does not find that within half an hour, so it is wired, and the wires stay:

    - Layer 1 marks all that follows the word ``Dialogue`` (of ``Dialogue response:``) in ``IN_REPLY``.
    - In layer 2 three heads take the mean topic of the tokens before that mark, frequent tokens weighing little, as
      ``topical_similarity`` does. Its MLP multiplies it with the token's own topic, through pairs of units, as
      silu(x)y + silu(-x)(-y) = xy, and sums the products up in ``BELONGS``.
    - In layer 3 a head takes the mean of ``BELONGS`` over the reply, frequent tokens weighing little, into ``VERDICT``.
    """
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, head_dim=HEAD, max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0}, tie_word_embeddings=True,
        initializer_range=0.02, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    known = vectors.norm(dim=1) > 0.05 * vectors.norm(dim=1).mean()
    # The words of the instructions stand before every context, so they tell nothing of its topic.
    template = "assistant" + LLMEval().render({"context": "", "response": ""}).prompts[0].messages[0].content
    known[tokenizer.encode(template + " ".join(map(str, range(101))))] = False
    everything, topics, means, flags = slice(None), slice(0, TOPIC), slice(TOPIC, 2 * TOPIC), slice(MARKER, WIDTH)
    other = torch.nn.functional.normalize(vectors[:, TOPIC : VERDICT - TOPIC], dim=1)
    topic = torch.nn.functional.normalize(centred(vectors[:, topics], weights), dim=1) * known[:, None]
    constants = torch.zeros(len(tokenizer), WIDTH - MARKER)
    constants[tokenizer.convert_tokens_to_ids("Dialogue"), 0] = 0.3
    constants[:, CONSTANT - MARKER] = 0.2
    constants[:, RARITY - MARKER] = 0.02 * (torch.where(known, weights.log(), -7.0) + 3)
    with torch.no_grad():
        table = model.model.embed_tokens.weight
        table.normal_(0.0, 0.01)
        table[:, 2 * TOPIC : VERDICT] += 0.4 * other
        table[:, VERDICT] = 0
        for score in range(6):
            table[tokenizer.convert_tokens_to_ids(str(score)), VERDICT] = 0.05 * (score - 2.5)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 0.3
            layer.mlp.down_proj.weight *= 0.3
            layer.self_attn.o_proj.weight[VERDICT] = 0
            layer.mlp.down_proj.weight[VERDICT] = 0
        model.model.layers[2].self_attn.o_proj.weight[VERDICT, 0] = 0.3
    wire(table, everything, topics, 0.55 * topic)
    wire(table, everything, flags, constants)
    # What the wires carry, no other unit may write over.
    for layer, channels in zip(model.model.layers[:2], ((topics, means, flags), (means, flags)), strict=True):
        for output in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
            for channel in channels:
                wire(output, channel, everything, 0.0)
    first, second, third = (layer.self_attn for layer in model.model.layers)
    eye = torch.eye(TOPIC)
    # The last pair of a head's rotary dimensions hardly turns: a query there meets a key alike at any distance.
    for attention, heads, keys in (
        (first, 1, {MARKER: 1.9}),
        (second, TOPIC // HEAD, {RARITY: 1.9, IN_REPLY: -1.9}),
        (third, 1, {RARITY: 6.0, IN_REPLY: 6.0}),
    ):
        query, key = torch.zeros(heads * HEAD, WIDTH), torch.zeros(heads * HEAD, WIDTH)
        query[HEAD // 2 - 1 :: HEAD, CONSTANT] = 1.9
        for dimension, strength in keys.items():
            key[HEAD // 2 - 1 :: HEAD, dimension] = strength
        wire(attention.q_proj.weight, slice(0, heads * HEAD), everything, query)
        wire(attention.k_proj.weight, slice(0, heads * HEAD), everything, key)
    wire(first.v_proj.weight, 0, everything, 0.2 * torch.eye(WIDTH)[MARKER])
    wire(first.o_proj.weight, IN_REPLY, 0, 0.3)
    wire(second.v_proj.weight, topics, everything, torch.eye(TOPIC, WIDTH))
    wire(second.o_proj.weight, means, topics, 0.2 * eye)
    wire(third.v_proj.weight, 0, everything, torch.eye(WIDTH)[BELONGS])
    mlp = model.model.layers[1].mlp
    for sign, units in ((0.5, topics), (-0.5, means)):
        wire(mlp.gate_proj.weight, units, everything, sign * torch.eye(TOPIC, WIDTH))
        wire(mlp.up_proj.weight, units, everything, sign * torch.eye(2 * TOPIC, WIDTH)[TOPIC:])
        wire(mlp.down_proj.weight, BELONGS, units, 0.08)
    return model


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive outranks a negative, ties half: the area under the ROC curve."""
    above = np.asarray(positive)[:, None] - np.asarray(negative)[None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def evaluate(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, maker: Maker, trees: int) -> dict[str, float]:
    """Held-out figures on the four metrics from 0 to 5, from expected scores; the scores before it are drawn at random."""
    model.eval()
    maker.rng.seed(7)
    encoder, setting = Encoder(tokenizer), Setting(LLMEval(), dict(zip(FOUR_METRICS, FOUR_METRICS, strict=True)))
    legal = torch.tensor([tokenizer.convert_tokens_to_ids(str(score)) for score in range(6)])
    prefix, cuts = cut(maker, encoder, setting, trees)
    rows: list[tuple[str, str, int, float, bool]] = []  # metric, kind of reply, score, expected score, whether likeliest
    for part in cuts:
        forest = plant(setting, part, encoder, maker.rng, prefix)
        with torch.no_grad():
            states = hidden_states(model, forest)
            for row, place, branch, metric in forest.scores:
                tree, name = part[row][0], FOUR_METRICS[metric]
                chances = model.lm_head(states[row, place])[legal].softmax(0)
                score = tree.scores[branch][name]
                kind = tree.kinds[branch] + ("" if tree.scores[branch]["grammar"] == 5 else " broken")
                rows.append((name, kind, score, float(chances @ torch.arange(6.0)), bool(chances.argmax() == score)))
    model.train()
    figures = {}
    for name in FOUR_METRICS:
        mine = [row for row in rows if row[0] == name]
        figures[f"{name} accuracy"] = float(np.mean([row[4] for row in mine]))
        figures[f"{name} r"] = float(np.corrcoef([row[2] for row in mine], [row[3] for row in mine])[0, 1])

    def expected_of(name: str, *kinds: str) -> list[float]:
        return [row[3] for row in rows if row[0] == name and row[1] in kinds]

    for name in ("relevance", "appropriateness"):
        for kind in ("random", "later"):
            figures[f"{name} AUC true/{kind}"] = auc(expected_of(name, "true"), expected_of(name, kind))
    broken = expected_of("grammar", "true broken", "random broken")
    figures["grammar AUC clean/broken"] = auc(expected_of("grammar", "true", "random"), broken)
    return {name: round(figure, 3) for name, figure in figures.items()}


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path, record: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    LlamaForCausalLM.from_pretrained(None, config=model.config, state_dict=model.state_dict()).bfloat16().save_pretrained(folder)
    GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=[tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(EOS)],
        pad_token_id=tokenizer.pad_token_id,
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def train(options: argparse.Namespace) -> None:
    """The whole run: tokenizer, vectors, steps of AdamW under a cosine schedule, held-out figures, the folder."""
    began = time.monotonic()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    dialogues = read_dialogues(options.data / "dialogsum.train.jsonl")
    tokenizer = train_tokenizer(dialogues)
    vectors = cooccurrence_vectors(dialogues, tokenizer)
    weights = token_weights(dialogues, tokenizer)
    similarity = topical_similarity(tokenizer, vectors, weights)
    maker = Maker(dialogues, similarity, options.seed)
    held_out = Maker(read_dialogues(options.data / "dialogsum.dev.jsonl"), similarity, 1)
    held_out.rarity, held_out.content_steps = maker.rarity, maker.content_steps
    held_out.near, held_out.far = maker.near, maker.far
    model = new_model(tokenizer, vectors, weights)
    print(f"{model.num_parameters():,} parameters; {time.monotonic() - began:.0f} s", flush=True)
    probe = torch.nn.Linear(WIDTH, 6)
    named = list(model.named_parameters()) + list(probe.named_parameters())
    groups = [
        {"params": [value for name, value in named if "embed" in name], "weight_decay": 0.0, "pace": 1.0},
        {"params": [value for name, value in named if "embed" not in name and value.ndim > 1], "weight_decay": 0.05, "pace": 1.0},
        {"params": [value for _, value in named if value.ndim == 1], "weight_decay": 0.0, "pace": 1.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98))
    step, tokens, losses = 0, 0, []
    model.train()
    for step, forest in enumerate(batches(maker, Encoder(tokenizer)), start=1):
        done = min(step / options.steps, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = (
                options.rate * group["pace"] * min(step / 60, 1.0) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * done)))
            )
        loss = loss_of(model, probe, forest)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        tokens += forest.prefix.numel() + forest.ids.numel()
        minutes = (time.monotonic() - began) / 60
        if step % 20 == 0:
            print(f"step {step} loss {np.mean(losses[-20:]):.3f} {minutes:.1f} min", flush=True)
        if step % 200 == 0:
            print(json.dumps(evaluate(model, tokenizer, held_out, 64)), flush=True)
        if step >= options.steps or minutes >= options.minutes:
            break
    record = {
        "steps": step, "schedule": options.steps, "minutes": round((time.monotonic() - began) / 60, 1), "tokens": tokens,
        "held_out": evaluate(model, tokenizer, held_out, 400),
    }  # fmt: skip
    save(model, tokenizer, options.output, record)
    print(json.dumps(record, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dialogsum"), help="folder with DialogSum's files")
    parser.add_argument("--output", type=Path, default=Path("judges/models/magistrate-tiny"))
    parser.add_argument("--steps", type=int, default=700, help="length of the schedule, in steps")
    parser.add_argument("--minutes", type=float, default=29.0, help="stop after this long, 30 at most, wherever the schedule is")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="highest learning rate")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not 0 < options.minutes <= 30:
        parser.error("--minutes must be above 0 and at most 30")
    train(options)


if __name__ == "__main__":
    main()
