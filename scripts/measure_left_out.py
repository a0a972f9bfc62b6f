"""Whether QualEval's calibration finds the sub-task that answers leave out: a constructed case from DialogSum's dev summaries.

    python -m scripts.measure_left_out -o left-out/

For each sub-task of ``judge_data.subtasks`` the answers are people's summaries without the phrases that show it; rows where that
changes what is shown of another sub-task are left out. Every summary and answer is rated on all sub-tasks. Source: QualEval,
section 5.1 and appendix A.3. The same command again resumes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from evals.data.tasks import Instance, Predictions, Task, read_dataset
from evals.qualeval.affinities import rate
from evals.qualeval.attributes import given
from evals.qualeval.study_folder import StudyFolder
from evals.stats.bootstrap import grouped_intervals
from evals.stats.correlation import apart
from judges.backend import ProgressListener
from judges.catalog import EMBEDDED
from judges.engines import ENGINES, open_engine
from judges.engines.engine import Engine, and_close
from scripts.judge_data.damage import sentences
from scripts.judge_data.subtasks import SUMMARY_NAMES, SUMMARY_PATTERNS, in_summary

DATA = Path(__file__).parents[2] / "shared" / "data" / "dialogsum" / "dialogsum.dev.jsonl"
PHRASE = re.compile(
    r"(?=,? \b(?:and|but|so|while|since|after|when|as|because|for|with|at|on|in|by|until|before|due to|which|who|if)\b)"
)
"""Where a phrase begins that a sentence can do without."""

LEAST_WORDS = 5


def left_out(summary: str, subtask: str) -> str | None:
    """The summary without the phrases that show a sub-task; ``None`` if too little is left, or another sub-task changes."""
    shows = re.compile(SUMMARY_PATTERNS[subtask], re.IGNORECASE).search
    kept = []
    for sentence in sentences(summary):
        phrases = PHRASE.split(sentence)
        if not shows(phrases[0]):  # nothing stands without its beginning
            text = "".join(phrase for phrase in phrases if not shows(phrase))
            kept.append(f"{text.strip(' ,.;')}.")
    answer = " ".join(kept)
    if len(answer.split()) < LEAST_WORDS:
        return None
    before, after = shown(summary), shown(answer)
    return answer if before - after == {subtask} and not after - before else None


def shown(summary: str) -> set[str]:
    """The sub-tasks that a summary shows."""
    return {name for name, found in in_summary(summary).items() if found.rating > 3}


def cases(subtask: str, instances: Sequence[Instance], count: int) -> Iterator[tuple[Instance, str]]:
    """Instances whose summary shows a sub-task, each with the answer that leaves it out, at most ``count``."""
    fit = [(one, answer) for one in instances if (answer := left_out(str(one.truth), subtask)) is not None]
    yield from random.Random(0).sample(fit, min(count, len(fit)))


async def run(engine: Engine, folder: Path, count: int) -> None:
    """Print a line a sub-task that is left out: its calibration distance, and the largest of the others."""
    task = Task.load("dialogsum")
    instances = list(read_dataset(task, DATA).instances)
    keys = list(SUMMARY_NAMES)
    found = given("subtask", [SUMMARY_NAMES[key][0] for key in keys])
    print("| left out | answers | its distance | mean of the others | largest of the others |\n|---|---|---|---|---|")
    for number, key in enumerate(keys):
        pairs = list(cases(key, instances, count))
        chosen = [instance for instance, _ in pairs]
        answers = Predictions(key, {instance.id: answer for instance, answer in pairs}, [])
        place = StudyFolder(folder / key, engine, lambda stage, count: ProgressListener())
        truth = await rate(place, chosen, found, "ground_truth", instruction=task.instruction)
        answered = await rate(place, chosen, found, "generation", answers, instruction=task.instruction)
        differs = apart(answered.scores, truth.scores)
        own = grouped_intervals(differs[:, number], np.zeros((len(chosen), 1), np.int64), 1, shares=True).overall
        others = {found.names[other]: float(np.nanmean(differs[:, other])) for other in range(len(keys)) if other != number}
        largest = max(others, key=lambda name: others[name])
        print(
            f"| {found.names[number]} | {len(chosen)} | {own.mean:.0%} ({own.low:.0%} to {own.high:.0%}) | "
            f"{np.mean(list(others.values())):.0%} | {largest}, {others[largest]:.0%} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--base-url")
    parser.add_argument("-o", "--output", type=Path, default=Path("left-out"))
    parser.add_argument("--count", type=int, default=40, help="answers of each sub-task at most")
    arguments = parser.parse_args()
    engine = open_engine(arguments.engine, arguments.model, base_url=arguments.base_url)
    asyncio.run(and_close(run(engine, arguments.output, arguments.count), engine))


if __name__ == "__main__":
    main()
