"""How far a judge agrees with people: correlations with the human ratings of USR (TopicalChat) and GRADE.

    python scripts/measure_agreement.py prepare ../shared/data/usr/tc_usr_data.json -o usr.jsonl
    magistrate score usr.jsonl --judge llm-eval --model magistrate-tiny -o usr.verdicts.jsonl
    python scripts/measure_agreement.py measure usr.jsonl usr.verdicts.jsonl

Every metric is set against every quality that people rated, so nothing is picked out. BLEU-4 and ROUGE-L stand beside
them where there is a reference. Needs scipy, sacrebleu and rouge-score.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import sentence_bleu
from scipy.stats import pearsonr, spearmanr

GROUND_TRUTH = "Original Ground Truth"
USR_QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
GRADE_SETS = {"convai2": "ConvAI2 (GRADE)", "dailydialog_EVAL": "DailyDialog (GRADE)"}

Row = dict[str, Any]


def usr_rows(dialogues: Iterable[Mapping[str, Any]]) -> list[Row]:
    """USR's TopicalChat file, one row a response. Its reference is the original next turn, which itself is given none."""
    rows: list[Row] = []
    for number, dialogue in enumerate(dialogues):
        turns = [turn.strip() for turn in dialogue["context"].strip().split("\n")]
        truth = next(answer["response"] for answer in dialogue["responses"] if answer["model"] == GROUND_TRUTH)
        for place, answer in enumerate(dialogue["responses"]):
            row: Row = {"id": f"usr-{number}-{place}", "context": turns, "response": answer["response"].strip()}
            if answer["model"] != GROUND_TRUTH:
                row["reference"] = truth.strip()
            row["set"] = "TopicalChat (USR)"
            row["human"] = {quality: float(np.mean(answer[quality])) for quality in USR_QUALITIES}
            rows.append(row)
    return rows


def grade_rows(judgements: Iterable[Mapping[str, Any]]) -> list[Row]:
    """GRADE's file, one row a judgement; it has no references. ``HumanScores`` is the text of a list of ratings."""
    return [
        {
            "id": f"grade-{number}",
            "context": [turn.strip() for turn in judgement["Context"].split("|||")],
            "response": judgement["Response"].strip(),
            "set": GRADE_SETS.get(judgement["Dataset"], judgement["Dataset"]),
            "human": {"Quality": float(np.mean(json.loads(judgement["HumanScores"])))},
        }
        for number, judgement in enumerate(judgements)
    ]


def prepare(source: Path, output: Path) -> None:
    """Write samples for ``magistrate score``. The judge reads only ``context``, ``response`` and ``reference``."""
    content = json.loads(source.read_text(encoding="utf-8"))
    rows = usr_rows(content) if "responses" in content[0] else grade_rows(content)
    output.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} samples in {output}")


def read_lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def judged(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Scored verdicts by id: per metric the chosen score and its expectation, and the mean over the metrics of either."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for verdict in verdicts:
        if verdict["status"] != "scored":
            continue
        chosen = {metric: float(score) for metric, score in verdict["scores"].items() if isinstance(score, int | float)}
        expected = {
            metric: float(answer["expectation"])
            for metric, answer in (verdict.get("expected") or {}).items()
            if answer is not None
        }
        found[str(verdict["id"])] = {
            name: scores | {"mean of the metrics": float(np.mean(list(scores.values())))}
            for name, scores in (("score", chosen), ("expectation", expected))
            if scores
        }
    return found


def overlap(row: Row) -> dict[str, float]:
    """BLEU-4 (sacrebleu's sentence BLEU, smoothed, 0 to 100) and ROUGE-L (F-measure, 0 to 1) against the reference."""
    rouge = RougeScorer(["rougeL"]).score(row["reference"], row["response"])["rougeL"].fmeasure
    return {"BLEU-4": sentence_bleu(row["response"], [row["reference"]]).score, "ROUGE-L": float(rouge)}


def correlation(ours: Sequence[float], people: Sequence[float]) -> str:
    """Pearson / Spearman; ``constant`` where one side does not vary, as then neither is defined."""
    if np.ptp(ours) == 0 or np.ptp(people) == 0:
        return "constant"
    return f"{pearsonr(ours, people).statistic:+.2f} / {spearmanr(ours, people).statistic:+.2f}"


def table(title: str, rows: Sequence[Row], columns: Mapping[str, Sequence[float]]) -> str:
    """A Markdown table of every column of ours against every quality people rated, over the same rows."""
    qualities = list(rows[0]["human"])
    lines = [
        f"**{title}, n = {len(rows)}.** Pearson / Spearman. Within ±{1.96 / math.sqrt(len(rows)):.2f}: not told from nil.",
        "",
        "| | " + " | ".join(qualities) + " |",
        "|---" * (len(qualities) + 1) + "|",
    ]
    for name, ours in columns.items():
        cells = [correlation(ours, [row["human"][quality] for row in rows]) for quality in qualities]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(samples: Sequence[Row], verdicts: Iterable[Mapping[str, Any]]) -> str:
    """The tables of every set in ``samples``; a set with references gets a second one over the rows that have them."""
    found = judged(verdicts)
    parts = []
    for name in dict.fromkeys(row["set"] for row in samples):
        everything = [row for row in samples if row["set"] == name]
        rows = [row for row in everything if row["id"] in found]
        if len(rows) < len(everything):
            parts.append(f"{name}: {len(everything) - len(rows)} of {len(everything)} samples have no score and are left out.")
        if len(rows) < 3:
            continue
        parts.append(table(name, rows, ours_of(rows, found)))
        referenced = [row for row in rows if "reference" in row]
        if len(referenced) >= 3:
            overlaps = [overlap(row) for row in referenced]
            columns = ours_of(referenced, found)
            columns |= {key: [scores[key] for scores in overlaps] for key in ("BLEU-4", "ROUGE-L")}
            parts.append(table(f"{name}, rows with a reference", referenced, columns))
    return "\n\n".join(parts)


def ours_of(rows: Sequence[Row], found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = {}
    for form in ("score", "expectation"):
        answers = [found[row["id"]].get(form, {}) for row in rows]
        for metric in dict.fromkeys(metric for answer in answers for metric in answer):
            if all(metric in answer for answer in answers):
                columns[f"{metric}, {form}"] = [answer[metric] for answer in answers]
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="turn USR's or GRADE's file into samples")
    preparing.add_argument("source", type=Path, help="tc_usr_data.json or human_judgement.json")
    preparing.add_argument("-o", "--output", type=Path, required=True)
    measuring = commands.add_parser("measure", help="print the tables of correlations")
    measuring.add_argument("samples", type=Path)
    measuring.add_argument("verdicts", type=Path, nargs="+", help="what `magistrate score` wrote, one file or more")
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.source, options.output)
        return
    tables = report(read_lines(options.samples), [row for path in options.verdicts for row in read_lines(path)])
    sys.stdout.write(tables + "\n")


if __name__ == "__main__":
    main()
