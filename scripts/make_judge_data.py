"""Make the rows that the embedded judge is trained on, and those that choose its checkpoint.

    python -m scripts.make_judge_data ../shared/data -o judge-data/

Every score follows from how its sample was made; only GRADE's replies are rated by people. ``train.jsonl`` is for
``magistrate finetune train --recipe judge-135m``, ``validation.jsonl`` is made alike from dialogues and questions of other files.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from judges.data.files import atomic_write
from scripts.judge_data import dialogues
from scripts.judge_data.examples import Example, rows
from scripts.judge_data.texts import Words

Groups = Iterator[list[Example]]
Source = Callable[[Path, str, random.Random], Groups]


def replies(data: Path, split: str, rng: random.Random) -> Groups:
    """Replies to DialogSum's dialogues, without end."""
    train, dev = (dialogues.read_dialogues(data / "dialogsum" / f"dialogsum.{part}.jsonl") for part in ("train", "dev"))
    words = Words([" ".join(turns) for turns in train])
    maker = dialogues.Replies(train if split == "train" else dev, words, rng)
    while True:
        yield maker.group(dialogues.setting(rng))


def rated(data: Path, split: str, rng: random.Random) -> Groups:
    """GRADE's rated replies, of which every tenth is held out."""
    train = dialogues.read_dialogues(data / "dialogsum" / "dialogsum.train.jsonl")
    words = Words([" ".join(turns) for turns in train])
    steps = dialogues.Replies(train[:800], words, rng).content_steps
    groups = list(dialogues.rated(data / "grade" / "human_judgement.json", words, steps, rng, 3))
    for number, group in enumerate(groups):
        if (number % 10 == 0) == (split == "held-out"):
            yield group


SOURCES: dict[str, tuple[Source, int]] = {"replies": (replies, 9000), "rated": (rated, 900)}
"""Source to its function, and its number of groups for training."""

HELD_OUT = 0.015
"""Held-out groups for each one for training."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of dialogsum/, grade/, mmlu/ and mbpp/")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="share of the groups to make")
    parser.add_argument("--only", action="append", choices=list(SOURCES), help="sources; all by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for split, file, part in (
        ("train", "train.jsonl", options.share),
        ("held-out", "validation.jsonl", options.share * HELD_OUT),
    ):
        lines, kinds = [], Counter[str]()
        for name in options.only or SOURCES:
            source, groups = SOURCES[name]
            rng = random.Random(f"{options.seed} {split} {name}")
            for number, group in zip(range(max(1, round(groups * part))), source(options.data, split, rng), strict=False):
                for variant, example in enumerate(group):
                    kinds[f"{name}: {example.kind}"] += 1
                    made = rows(example, f"{name}.{number}.{variant}", rng)
                    lines += [json.dumps(row, ensure_ascii=False) for row in made]
        atomic_write(options.output / file, "\n".join(lines) + "\n")
        print(f"{file}: {len(lines):,} rows; " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items())))


if __name__ == "__main__":
    main()
