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
from itertools import islice
from pathlib import Path

from judges.data.files import atomic_write
from scripts.judge_data.attributes import attributes
from scripts.judge_data.dialogues import rated, replies
from scripts.judge_data.examples import Example, rows
from scripts.judge_data.grounded import grounded
from scripts.judge_data.pairs import pairs
from scripts.judge_data.rubrics import rubrics
from scripts.judge_data.sources import Split
from scripts.judge_data.summaries import summaries

Source = Callable[[Path, Split, random.Random], Iterator[list[Example]]]

SOURCES: dict[str, tuple[Source, int]] = {
    "replies": (replies, 2600),
    "rated": (rated, 1300),
    "summaries": (summaries, 500),
    "grounded": (grounded, 50),
    "pairs": (pairs, 800),
    "rubrics": (rubrics, 150),
    "attributes": (attributes, 80),
}
"""Source to its function and its number of groups for training. A source that ends is read again."""

HELD_OUT = 0.01
"""Held-out groups for each one for training."""


def made(data: Path, name: str, split: Split, groups: int, seed: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Make the rows of so many groups of a source, each with its kind."""
    source = SOURCES[name][0]
    rng = random.Random(f"{seed} {split} {name}")

    def endless() -> Iterator[list[Example]]:
        while True:
            yield from source(data, split, rng)

    for number, group in enumerate(islice(endless(), groups)):
        for variant, example in enumerate(group):
            for row in rows(example, f"{name}.{number}.{variant}", rng):
                yield f"{name}: {row['kind']}", row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of dialogsum/, grade/, mmlu/ and mbpp/")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="share of the groups to make")
    parser.add_argument("--only", action="append", choices=list(SOURCES), help="sources; all by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    parts: tuple[tuple[Split, str, float], ...] = (("train", "train", 1.0), ("held-out", "validation", HELD_OUT))
    for split, file, part in parts:
        lines, kinds = [], Counter[str]()
        for name in options.only or SOURCES:
            groups = max(1, round(SOURCES[name][1] * options.share * part))
            for kind, row in made(options.data, name, split, groups, options.seed):
                lines.append(json.dumps(row, ensure_ascii=False))
                kinds[kind] += 1
        atomic_write(options.output / f"{file}.jsonl", "\n".join(lines) + "\n")
        print(f"{file}: {len(lines):,} rows; " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items())))


if __name__ == "__main__":
    main()
