"""How far QualEval's priors and assignments are from people's labels: MMLU's subjects mixed at known shares, DialogSum's topics.

    .venv/bin/python scripts/measure_faithfulness.py --model magistrate-135m -o faithfulness/

Source: QualEval, section 4.1 and figure 4, which has MedMCQA in their place. The labels are given as the domains. The same
command again goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

from evals.data.tasks import Instance, Task, read_dataset
from evals.qualeval import breakdown
from evals.qualeval.affinities import rate
from evals.qualeval.attributes import given
from evals.qualeval.faithfulness import Faithfulness, faithfulness
from evals.qualeval.options import Options
from evals.qualeval.study_folder import StudyFolder
from judges.backend import ProgressListener
from judges.catalog import EMBEDDED
from judges.engines import ENGINES, open_engine
from judges.engines.engine import Engine, and_close

DATA = Path(__file__).parents[2] / "shared" / "data"
SHARES = {
    "clinical_knowledge": 0.20,
    "high_school_physics": 0.16,
    "world_religions": 0.14,
    "professional_law": 0.12,
    "marketing": 0.10,
    "astronomy": 0.08,
    "computer_security": 0.07,
    "nutrition": 0.05,
    "philosophy": 0.05,
    "econometrics": 0.03,
}
TOPICS = 10


def mmlu(count: int) -> list[Instance]:
    """Rows of ten subjects at known shares."""
    found = []
    for subject, share in SHARES.items():
        with (DATA / "mmlu" / "test" / f"{subject}_test.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        for number, row in enumerate(random.Random(0).sample(rows, round(share * count))):
            question = "\n".join([row[0], *(f"{letter}. {text}" for letter, text in zip("ABCD", row[1:5], strict=True))])
            found.append(Instance(f"{subject}-{number}", {}, question, row[5], subject.replace("_", " ")))
    return found


def dialogsum(count: int) -> list[Instance]:
    """Conversations of the topics that people gave most often."""
    rows = read_dataset(Task.load("dialogsum"), DATA / "dialogsum" / "dialogsum.train.jsonl").instances
    rows = [replace(one, label=(one.label or "").strip().lower()) for one in rows]
    common = [label for label, _ in Counter(one.label for one in rows).most_common(TOPICS)]
    return random.Random(0).sample([one for one in rows if one.label in common], count)


async def compare(
    name: str, instances: list[Instance], folder: Path, engine: Engine, options: Options
) -> dict[str, Faithfulness]:
    """Rate, assign, and hold against the labels."""
    labels = sorted({str(one.label) for one in instances})
    found = given("domain", labels)
    place = StudyFolder(folder / name, engine, lambda stage, count: ProgressListener())
    affinities = await rate(place, instances, found, "none")
    assigned = breakdown.assign(found, affinities, [one.id for one in instances], options)
    compared = faithfulness(assigned, instances, options)
    assert compared is not None
    return compared


async def run(engine: Engine, folder: Path, count: int, options: Options) -> None:
    print("| data | way | total variation of shares | label among the two |\n|---|---|---|---|")
    for name, instances in (("mmlu", mmlu(count)), ("dialogsum", dialogsum(count))):
        for way, found in (await compare(name, instances, folder, engine, options)).items():
            print(f"| {name}, {len(instances)} rows | {way} | {found.total_variation:.3f} | {found.accuracy:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--base-url")
    parser.add_argument("-o", "--output", type=Path, default=Path("faithfulness"))
    parser.add_argument("--count", type=int, default=250, help="rows of each data set; the paper has 250")
    parser.add_argument("--scores", choices=("greedy", "expected"), default="greedy", help="what the assignment goes by")
    arguments = parser.parse_args()
    engine = open_engine(arguments.engine, arguments.model, base_url=arguments.base_url)
    options = Options(scores=arguments.scores)
    asyncio.run(and_close(run(engine, arguments.output, arguments.count, options), engine))


if __name__ == "__main__":
    main()
