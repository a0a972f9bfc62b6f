"""Whether rows of chosen domains teach more than as many at random: QualEval's table 1 on DialogSum, with a small model.

    python scripts/pretrain_small.py --data ../shared/data/dialogsum --output runs/small-llama
    python scripts/measure_table_1.py --data ../shared/data/dialogsum --base runs/small-llama --output runs/table-1

Everything is as `magistrate finetune augment` does it, but for the judge: affinities to the ten domains below are words counted
in the topic that people gave a dialogue (a score of 5) and in the dialogue (up to 4), so that no judge's faults are in the
outcome. The solver assigns two domains to each dialogue by them. The sets are the domains in their order, as many in a set as
the paper has.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

import solver
from evals.data.tasks import Instance, Task, read_dataset
from evals.metrics.catalog import open_metric
from finetune.experiments.experiment import Assigned, Experiment, Plan, run
from finetune.experiments.report import write_report
from finetune.training.recipe import Recipe
from judges.engines import open_engine
from magistrate.cli.finetuning import listeners
from magistrate.cli.terminal import ConsoleProgress

WORDS = {
    "Shopping": "shop shops shopping buy bought purchase store price bargain clothes refund sale market dress size discount",
    "Food": "food eat eating restaurant dinner lunch breakfast meal order cook cooking menu drink coffee dish cake wine",
    "Work": "job work working interview career office salary boss business company meeting employee resume promotion colleague",
    "Travel": "travel trip flight airport hotel taxi bus train holiday vacation tour ticket directions road plane luggage",
    "School": "school study studying exam class course university college student teacher learn english education library test",
    "Health": "doctor health hospital sick illness weight exercise medicine pain disease smoking smoke headache cold dentist",
    "Family and friends": "family friend friends wedding marriage married party date dating birthday love girlfriend boyfriend",
    "Leisure": "movie film music game games sport sports tv television hobby weekend concert football tennis play dance swim",
    "Money": "bank account money loan credit card insurance pay payment tax exchange cash invest stock rent cheque deposit",
    "Home": "house home apartment room kitchen furniture repair garden neighbor neighborhood landlord clean dishes pet dog cat",
}
SETS = [[0], [1, 2], [3, 4, 5]]


def affinities(instances: Sequence[Instance]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """``(N, 10)`` from 1 to 5."""
    found = np.ones((len(instances), len(WORDS)), np.float32)
    vocabulary = [set(words.split()) for words in WORDS.values()]
    for row, instance in enumerate(instances):
        topic, dialogue = (set(re.findall(r"[a-z]+", text.lower())) for text in (instance.fields["topic"], instance.input))
        for column, words in enumerate(vocabulary):
            found[row, column] = 5 if topic & words else min(4, 1 + len(dialogue & words))
    return found


def assigned(instances: Sequence[Instance]) -> Assigned:
    made = solver.assign(affinities(instances), k=2, slack="auto", labels=list(WORDS))
    return Assigned(instances, made.chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dialogsum"), help="folder with DialogSum's files")
    parser.add_argument("--base", default="runs/small-llama", help="the model that is trained")
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--max-tokens", type=int, default=64)
    options = parser.parse_args()
    task = Task.load("dialogsum")
    pool, asked = (
        assigned(read_dataset(task, options.data / f"dialogsum.{split}.jsonl", None).instances) for split in ("train", "dev")
    )
    plan = Plan(
        task=task,
        metric=open_metric("rouge-l"),
        recipe=Recipe.load(options.recipe, base=options.base),
        seeds=options.seeds,
        max_tokens=options.max_tokens,
    )
    experiment = Experiment(plan=plan, domains=list(WORDS), pool=pool, evaluation=asked, sets=SETS)
    console = Console()
    values = run(
        experiment,
        options.output,
        lambda folder: open_engine("vllm", str(folder)),
        listener=lambda name: listeners(console, name),
        progress=lambda name, count: ConsoleProgress(console, count, what=f"answers of {name}", debug=False),
    )
    for file in write_report(experiment, values, options.output):
        print(file)


if __name__ == "__main__":
    main()
