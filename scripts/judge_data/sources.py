"""Reads the data that rows are made from: DialogSum's dialogues, MMLU's questions, MBPP's programs."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Split = Literal["train", "held-out"]

TAG = re.compile(r"#Person\d#")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
NAMES = (  # noqa: SIM905
    "Amanda Jerry Olivia Oliver Tim Kim Edward Igor John Hannah Betty Eric Rob Lenny Will Emma Jane Martin Adam Natalie Freddie "
    "Sam Bob Sue Monica Chris Rachel Ivan Tom Lucas Demi Nina Kate Mark Anna George Judy Jack Mia Leo Zoe Frank Vera Carla Diego "
    "Ruth Paul Ella Harry Grace Noah Alice Victor Iris Peter Laura Simon Megan Alex Julia Greg Tina Ian Wendy Sean Holly Omar"
).split()
COMMON_WORDS = """
the to and a is for 's tells in of about but with they will that it asks wants thinks her on because are has his he at
some she an go have be their him from by get so says as up take how then can out one was not going there this after
while when also what which who them too if been should or all had person talk i you me my your we do don't i'm it's ok
yes no well
"""
COMMON = frozenset(COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue of DialogSum with its summary and topic, all by people."""

    turns: tuple[str, ...]
    summary: str
    topic: str

    @property
    def tags(self) -> list[str]:
        return sorted(set(TAG.findall(" ".join(self.turns))))

    @property
    def names_itself(self) -> bool:
        """Whether the summary calls each speaker by the tag, so that names can stand for tags in both."""
        return set(self.tags) <= set(TAG.findall(self.summary))

    def named(self, names: Mapping[str, str]) -> Dialogue:
        """The same dialogue with names in place of tags."""
        return Dialogue(tuple(rename(turn, names) for turn in self.turns), rename(self.summary, names), self.topic)


@dataclass(frozen=True, slots=True)
class Question:
    """A question of MMLU; ``right`` is the index of the right option."""

    subject: str
    stem: str
    options: tuple[str, ...]
    right: int


@dataclass(frozen=True, slots=True)
class Program:
    """A task of MBPP and its solution."""

    task: str
    code: str


def rename(text: str, names: Mapping[str, str]) -> str:
    return TAG.sub(lambda tag: names.get(tag[0], tag[0]), text)


def words_said(turn: str) -> str:
    """A turn without the tag or name of its speaker."""
    speaker, colon, words = turn.partition(":")
    return words.strip() if colon else speaker


def draw_names(dialogue: Dialogue, rng: random.Random) -> dict[str, str]:
    """A first name for each speaker, unlike any in the dialogue; none if its summary knows them by other names."""
    if not dialogue.names_itself:
        return {}
    said = " ".join((*dialogue.turns, dialogue.summary))
    free = [name for name in NAMES if name not in said]
    return dict(zip(dialogue.tags, rng.sample(free, len(dialogue.tags)), strict=True))


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about."""
    return {word for word in WORD.findall(TAG.sub("", text).lower()) if len(word) > 2 and word not in COMMON}


def read_dialogues(folder: Path, split: Split, longest: int = 170) -> list[Dialogue]:
    """DialogSum's dialogues of 4 turns or more and at most ``longest`` words."""
    path = folder / "dialogsum" / f"dialogsum.{'train' if split == 'train' else 'dev'}.jsonl"
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        turns = tuple(turn for line in row["dialogue"].split("\n") if words_said(turn := " ".join(line.split())))
        if len(turns) >= 4 and len(row["dialogue"].split()) <= longest:
            found.append(Dialogue(turns, " ".join(row["summary"].split()), row["topic"].strip().lower()))
    return found


def read_questions(folder: Path, split: Split, longest: int = 60) -> list[Question]:
    """MMLU's questions of at most ``longest`` words, options included: test and dev to train on, val held out."""
    found = []
    for part in ("test", "dev") if split == "train" else ("val",):
        for path in sorted((folder / "mmlu" / part).glob("*.csv")):
            subject = path.stem.removesuffix(f"_{part}").replace("_", " ")
            with path.open(encoding="utf-8", newline="") as file:
                for stem, *options, right in csv.reader(file):
                    if len(" ".join((stem, *options)).split()) <= longest and len(set(options)) == len(options):
                        found.append(Question(subject, stem.strip(), tuple(map(str.strip, options)), "ABCD".index(right)))
    return found


def read_programs(folder: Path, split: Split, longest: int = 600) -> list[Program]:
    """MBPP's programs of at most ``longest`` characters. The file has no split: each eighth program is held out."""
    rows = json.loads((folder / "mbpp" / "sanitized-mbpp.json").read_text(encoding="utf-8"))
    return [
        Program(re.sub(r"\s*https?://\S+", "", row["prompt"]), row["code"].replace("\r\n", "\n").strip())
        for row in rows
        if (row["task_id"] % 8 == 0) == (split == "held-out") and len(row["code"]) <= longest
    ]


class Neighbours:
    """Finds dialogues near to one in the words of summary and topic.

    Args:
        dialogues: Where to look.
        rng: Draws those that are compared, since near is near enough.
    """

    def __init__(self, dialogues: Sequence[Dialogue], rng: random.Random) -> None:
        self.dialogues = dialogues
        self.rng = rng
        self.words = [content_words(f"{dialogue.summary} {dialogue.topic}") for dialogue in dialogues]

    def near(self, dialogue: Dialogue, among: int = 300) -> Dialogue:
        """Of ``among`` others the one that shares most words."""
        own = content_words(f"{dialogue.summary} {dialogue.topic}")
        drawn = self.rng.sample(range(len(self.dialogues)), min(among, len(self.dialogues)))

        def likeness(at: int) -> tuple[bool, bool, float]:
            other = self.dialogues[at]
            return (
                other != dialogue,
                other.names_itself >= dialogue.names_itself,
                len(own & self.words[at]) / (5 + len(self.words[at])),
            )

        return self.dialogues[max(drawn, key=likeness)]

    def far(self, dialogue: Dialogue) -> Dialogue:
        """One that shares no word."""
        own = content_words(f"{dialogue.summary} {dialogue.topic}")
        drawn = self.rng.sample(range(len(self.dialogues)), min(30, len(self.dialogues)))
        return self.dialogues[min(drawn, key=lambda at: len(own & self.words[at]))]
