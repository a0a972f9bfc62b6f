"""Compares the scoring rules of ``magistrate meta benchmark`` with their authors' own code, on generated and published answers.

    python -m scripts.compare_benchmark_rules CLONES            # prints what differs; exits with 1 if anything does
    python -m scripts.compare_benchmark_rules CLONES --write    # also writes tests/evals/meta/benchmarks/authors.json

CLONES holds git clones of allenai/reward-bench, ScalerLab/JudgeBench, princeton-nlp/LLMBar, WeOpenML/PandaLM and GAIR-NLP/auto-j
under their repositories' names. The authors' functions are read at the commits below and run here; figures alone are kept.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from datasets import Dataset

from evals.data.choice_labels import choice_of
from evals.meta.benchmarks.decisions import Decision
from evals.meta.benchmarks.declared import Name, benchmark
from evals.meta.benchmarks.files import BenchmarkSet, Item
from evals.meta.benchmarks.rules import Scored
from evals.meta.benchmarks.study import Options, part_figures

GOLDEN = Path(__file__).parents[1] / "tests" / "evals" / "meta" / "benchmarks" / "authors.json"
COMMITS = {
    "reward-bench": "05a9005efb607249822c193590c8ecab87c77052",
    "JudgeBench": "e2c52c284e735e139b3daa61c206ee208f36c461",
    "LLMBar": "900616bff90b6c6c8e1681f7d079250637c55992",
    "PandaLM": "3871806e72b4832f815ecafd24d3503c73403f48",
    "auto-j": "2ae17a3965d933232e9cd50302aa0f176249c83b",
}
PRINTED = {"gpt-3.5-turbo": [71.07, 58.79, 57.36, 57.55], "PandaLM-7B": [66.77, 57.38, 57.50, 57.43]}
"""PandaLM's own figures, README.md at 6fdac727d948518e7788201b699af7535157af99."""

SEED = 20261126
Row = dict[str, Any]
Figures = dict[str, list[float]]
"""Part or group to the figures of the measures, in percent."""


class Clone:
    """A repository at its commit."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._commit = folder / name, COMMITS[name]

    def text(self, path: str) -> str | None:
        """A file, or ``None`` where the clone does not have it."""
        shown = subprocess.run(
            ["git", "-C", str(self._folder), "show", f"{self._commit}:{path}"], capture_output=True, check=False
        )
        return shown.stdout.decode() if shown.returncode == 0 else None

    def known(self, path: str) -> str:
        """A file that must be there."""
        found = self.text(path)
        if found is None:
            raise SystemExit(f"{self._folder} lacks {path} at {self._commit}")
        return found

    def names(self, path: str) -> list[str]:
        """The files below a folder."""
        told = ["git", "-C", str(self._folder), "ls-tree", "-r", "--name-only", self._commit, path]
        return subprocess.run(told, capture_output=True, check=True, text=True).stdout.splitlines()

    def defined(self, path: str, names: Sequence[str], **known: Any) -> dict[str, Any]:
        """Functions and constants of a file, run without what else the file imports."""
        tree = ast.parse(self.known(path))
        wanted = [node for node in tree.body if _name(node) in names]
        for node in wanted:
            if isinstance(node, ast.FunctionDef):  # annotations name types of what is not imported
                node.returns = None
                for argument in node.args.args:
                    argument.annotation = None
        space: dict[str, Any] = {"np": np, "pd": pd, "Dataset": Dataset, "defaultdict": defaultdict, **known}
        space |= {"Dict": dict, "List": list, "Tuple": tuple, "Any": Any}
        exec(compile(ast.Module(wanted, []), path, "exec"), space)
        return space


def _name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef):
        return node.name
    return node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else None


def figures_of(name: Name, rows: Sequence[Row]) -> Figures:
    """What the project's own rule makes of rows; figures that are undefined are left out.

    Args:
        name: Of the benchmark.
        rows: Each with its ``part``, ``right``, and ``orders``, a judge's words, or ``ratings`` and ``key``.
    """
    scored = [_scored(place, row) for place, row in enumerate(rows)]
    found = BenchmarkSet(name=name, file="rows", items=[one.item for one in scored])
    return {
        one.name: [100 * figure.value for figure in one.figures if figure.value is not None]
        for one in part_figures(found, scored, Options(rounds=2))
        if any(figure.value is not None for figure in one.figures)
    }


def _scored(place: int, row: Row) -> Scored:
    key, ratings = row.get("key", str(place)), row.get("ratings")
    question, right = key.partition(":")[2] or key, row["right"]
    item = Item(
        id=f"i{place}",
        part=row["part"],
        item=question,
        question=question,
        answers=ratings or ("a", "b"),
        right=(choice_of(right) or 0) if isinstance(right, str) else right,
        key=key,
    )
    if ratings is not None:
        return Scored(item, Decision((), tuple(ratings)), rated=True)
    orders = tuple(choice_of(word) for word in row["orders"])
    return Scored(item, Decision(orders, reason="no choice" if None in orders else None))


LETTERS = {"A": "A", "B": "B", "tie": "=", None: "?"}


def packed(rows: Sequence[Row]) -> Any:
    """Rows of choices as a text a part, of a letter for the right choice and one for each order; other rows as they are."""
    if "ratings" in rows[0]:
        return list(rows)
    texts: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        texts[row["part"]].append("".join(LETTERS[word] for word in (row["right"], *row["orders"])))
    return {part: " ".join(said) for part, said in texts.items()}


def unpacked(rows: Any) -> list[Row]:
    """The rows that ``packed`` has packed."""
    if isinstance(rows, list):
        return rows
    words = {letter: word for word, letter in LETTERS.items()}
    said = ((part, [words[letter] for letter in one]) for part, text in rows.items() for one in text.split())
    return [{"part": part, "right": right, "orders": orders} for part, (right, *orders) in said]


class Case:
    """Rows, and the figures that the authors' code has of them."""

    def __init__(self, name: Name, what: str, rows: list[Row], figures: Figures) -> None:
        self.name, self.what, self.rows, self.figures = name, what, rows, figures

    def differences(self, tolerance: float) -> list[str]:
        """Where the project's rule has another figure. The authors round some of theirs to two digits."""
        ours = figures_of(self.name, self.rows)
        wrong = []
        for part, figures in self.figures.items():
            there = ours.get(part, [])
            if len(there) < len(figures) or any(abs(a - b) > tolerance for a, b in zip(there, figures, strict=False)):
                wrong.append(f"{self.name}, {self.what}, {part}: {there} here, {figures} there")
        return wrong


def judgebench(clone: Clone, chance: np.random.Generator) -> Iterator[Case]:
    """Generated choices in both orders and in one, and those that the authors published."""
    rule = clone.defined("utils/metrics.py", ("flip_judgment", "compute_final_metrics"))["compute_final_metrics"]
    for orders in (2, 1):
        yield _judgebench(rule, f"generated, orders: {orders}", list(_judged_pairs(chance, 80, orders)))
    for path in clone.names("outputs"):
        text = clone.text(path)
        if text is not None:
            yield _judgebench(rule, path, [json.loads(line) for line in text.splitlines()])


def _judged_pairs(chance: np.random.Generator, count: int, orders: int) -> Iterator[Row]:
    begins = [part.begins or "" for part in benchmark("judgebench").part]
    for _ in range(count):
        decisions = [str(one) for one in chance.choice(["A>B", "B>A", "A=B"], orders, p=[0.4, 0.4, 0.2])]
        unread = chance.random() < 0.1 and orders == 2  # of one order the authors' code takes no missing answer
        judgments: list[Row | None] = [None, None] if unread else [{"decision": one} for one in decisions]
        yield {"source": str(chance.choice(begins)), "label": str(chance.choice(["A>B", "B>A"])), "judgments": judgments}


def _judgebench(rule: Callable[..., float], what: str, pairs: list[Row]) -> Case:
    parts = {part.name: part.begins or "" for part in benchmark("judgebench").part}
    both = len(pairs[0]["judgments"]) == 2
    figures = {
        name: [float(rule(pairs, both, lambda pair, begins=begins: pair["source"].startswith(begins)))]
        for name, begins in {**parts, "Overall": ""}.items()
    }
    words = {"A>B": "A", "B>A": "B", "A=B": "tie", None: None}
    rows = []
    for pair in pairs:
        said = [words.get(one["decision"] if one is not None else None) for one in pair["judgments"]]
        told = [said[0], *(_flipped(one) for one in said[1:])]
        part = next(name for name, begins in parts.items() if pair["source"].startswith(begins))
        rows.append({"part": part, "right": words[pair["label"]], "orders": told})
    return Case("judgebench", what, rows, figures)


def _flipped(word: str | None) -> str | None:
    return {"A": "B", "B": "A"}.get(word or "", word)


def autoj(clone: Clone, chance: np.random.Generator) -> Iterator[Case]:
    """Generated labels in both orders and in one, and the published example."""
    groups = clone.defined("codes/leaderboard/utils_constants.py", ("scenario_group", "reversed_scenario_group"))
    names = ("exchange_to_ori_label", "register_scenario_wise_results", "group_wise_collect")
    rule = clone.defined("codes/leaderboard/pairwise_eval.py", names, **groups)
    scenarios = sorted(groups["reversed_scenario_group"])
    rows = [(one, *(int(label) for label in chance.integers(0, 3, 3))) for one in (*scenarios, *scenarios)]
    yield _autoj(rule, groups, "generated, orders: 2", rows, "pairwise")
    yield _autoj(rule, groups, "generated, orders: 1", rows, "single")
    source, first, second = (
        [json.loads(line) for line in clone.known(path).splitlines() if line]
        for path in (
            "data/test/testdata_pairwise.jsonl",
            "data/outputs/pairwise_example_output.jsonl",
            "data/outputs/pairwise_exchange_example_output.jsonl",
        )
    )
    real = [(one["scenario"], one["label"], a["output"], b["output"]) for one, a, b in zip(source, first, second, strict=True)]
    yield _autoj(rule, groups, "published example", real, "pairwise")


def _autoj(rule: Mapping[str, Any], groups: Mapping[str, Any], what: str, rows: Sequence[tuple[Any, ...]], kind: str) -> Case:
    results: dict[str, Any] = {}
    ours = []
    words = ("A", "B", "tie")
    for scenario, label, first, exchanged in rows:
        second = rule["exchange_to_ori_label"](exchanged) if kind == "pairwise" else None
        rule["register_scenario_wise_results"](results, scenario, label, first, second)
        orders = [words[first]] if second is None else [words[first], words[second]]
        ours.append({"part": groups["reversed_scenario_group"][scenario], "right": words[label], "orders": orders})
    found = rule["group_wise_collect"](results, kind)
    figures = {name: [one for one in (found[name]["agreement"], found[name]["consistency"]) if one != "-"] for name in found}
    return Case("autoj", what, ours, figures)


def rewardbench(clone: Clone, chance: np.random.Generator) -> Iterator[Case]:
    """Generated choices, whose sub-sets the authors' function puts together."""
    constants = clone.defined("rewardbench/constants.py", ("EXAMPLE_COUNTS", "SUBSET_MAPPING"))
    rule = clone.defined("rewardbench/utils.py", ("calculate_scores_per_section",))["calculate_scores_per_section"]
    counts, sections = constants["EXAMPLE_COUNTS"], constants["SUBSET_MAPPING"]
    for orders in (2, 1):
        rows: list[Row] = []
        metrics = {}
        for subset in counts:
            results = []
            for _ in range(int(chance.integers(3, 8))):
                said = [str(one) for one in chance.choice(["A", "B", "tie"], orders)]
                rows.append({"part": subset, "right": "A", "orders": said})
                results.append(np.mean([{"A": 1, "B": 0}.get(one, 0.5) for one in said]))  # as run_generative.py has each
            metrics[subset] = float(np.mean(results))
        by_section = rule(counts, sections, metrics)
        figures = {name: [100 * one] for name, one in {**metrics, **by_section}.items()}
        figures["Score"] = [100 * float(np.mean(list(by_section.values())))]
        yield Case("rewardbench", f"generated, orders: {orders}", rows, figures)


def rewardbench2(clone: Clone, chance: np.random.Generator) -> Iterator[Case]:
    """Generated ratings of a few grades, and of many."""
    names = ("reroll_and_score_dataset", "_compute_prompt_stats", "process_single_model")
    rule = clone.defined("rewardbench/utils.py", names)
    for what, high in (("generated grades", 5), ("generated scores", 1000)):
        rows: list[Row] = []
        figures: Figures = {}
        for part in benchmark("rewardbench2").part[:-1]:
            ratings = [[int(one) for one in chance.integers(1, high, 4)] for _ in range(12)]
            flat = [one for four in ratings for one in four]
            data = Dataset.from_dict({"text": ["t"] * len(flat), "scores": flat, "subset": [part.name] * len(flat)})
            scored = rule["reroll_and_score_dataset"](data, [4] * len(ratings))
            figures[part.name] = [100 * float(np.mean(scored["results"]))]
            rows += [{"part": part.name, "right": 1, "ratings": four} for four in ratings]
        ties = list(_ties(chance, 12, high))
        data = Dataset.from_list([{"id": one["key"], "scores": one["ratings"], "num_correct": one["right"]} for one in ties])
        figures["Ties"] = [100 * rule["process_single_model"](data)[1]]
        figures["Average"] = [float(np.mean([one[0] for one in figures.values()]))]
        yield Case("rewardbench2", what, rows + ties, figures)


def _ties(chance: np.random.Generator, count: int, high: int) -> Iterator[Row]:
    for number in range(count):
        for kind, right in (("ref", 1), ("tied", int(chance.integers(2, 6)))):
            good = chance.integers(high // 2, high, right) + int(chance.integers(0, high))
            ratings = [*good, *chance.integers(1, high, int(chance.integers(2, 8)))]
            yield {"part": "Ties", "right": right, "ratings": [int(one) for one in ratings], "key": f"{kind}:{number}"}


def llmbar(clone: Clone, _: np.random.Generator) -> Iterator[Case]:
    """The answers that the authors published, whose statistics stand beside them."""
    folders = {"Natural": "Natural", **{name: f"Adversarial/{name}" for name in ("Neighbor", "GPTInst", "GPTOut", "Manual")}}
    base = "Dataset/LLMBar/Natural/evaluators/"
    for evaluator in sorted({Path(path).parent.as_posix().removeprefix(base) for path in clone.names(base)}):
        if evaluator.partition("/")[2].startswith("Rating"):
            continue  # those are ratings, of which only the better one is kept
        rows, figures = [], {}
        for part, folder in folders.items():
            place = f"Dataset/LLMBar/{folder}/evaluators/{evaluator}"
            answers, printed = clone.text(f"{place}/result.json"), clone.text(f"{place}/statistics.json")
            if answers is None or printed is None:
                break
            rows += [_llmbar_row(part, one) for one in json.loads(answers)]
            told = json.loads(printed)
            figures[part] = [float(told["correct_average"].rstrip("%")), float(told["equal"].partition("= ")[2].rstrip("%"))]
        if len(figures) == len(folders):
            yield Case("llmbar", evaluator, rows, figures)


def _llmbar_row(part: str, row: Row) -> Row:
    winners = [row["results"][-1][f"swap = {swap}"]["winner"] for swap in (False, True)]
    orders = [{"1": "A", "2": "B"}.get(one) for one in winners]
    return {"part": part, "right": {1: "A", 2: "B"}[row["label"]], "orders": orders}


def pandalm(clone: Clone, _: np.random.Generator) -> Iterator[Case]:
    """The answers that the authors published; their figures are those that they printed."""
    people = json.loads(clone.known("data/testset-v1.json"))
    words = {0: "tie", 1: "A", 2: "B", "Tie": "tie", "1": "A", "2": "B"}
    for judge, path, column in (
        ("gpt-3.5-turbo", "data/gpt-3.5-turbo-testset-v1.json", "gpt_result"),
        ("PandaLM-7B", "data/pandalm-7b-testset-v1.json", "pandalm_result"),
    ):
        rows = []
        for one, answer in zip(people, json.loads(clone.known(path)), strict=True):
            named = [one[f"annotator{place}"] for place in (1, 2, 3)]
            rows.append(
                {"part": "All pairs", "right": words[max(set(named), key=named.count)], "orders": [words.get(answer[column])]}
            )
        yield Case("pandalm", judge, rows, {"All pairs": PRINTED[judge]})


SOURCES: Mapping[str, tuple[str, Callable[[Clone, np.random.Generator], Iterator[Case]]]] = {
    "rewardbench": ("reward-bench", rewardbench),
    "rewardbench2": ("reward-bench", rewardbench2),
    "judgebench": ("JudgeBench", judgebench),
    "llmbar": ("LLMBar", llmbar),
    "pandalm": ("PandaLM", pandalm),
    "autoj": ("auto-j", autoj),
}
KEPT = {"llmbar": ("GPT-4/Vanilla_NoRules", "ChatGPT/Swap"), "pandalm": tuple(PRINTED)}
"""Published answers that are kept for the tests, as a letter each; of other benchmarks, generated ones are."""

ROUNDED = 0.005 + 1e-9
"""By how much a figure of two digits may differ."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, metavar="CLONES")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    golden, wrong = {}, []
    for name, (repository, cases_of) in SOURCES.items():
        cases = list(cases_of(Clone(given.clones, repository), np.random.default_rng(SEED)))
        wrong += [one for case in cases for one in case.differences(ROUNDED)]
        print(f"{name}: {len(cases)} cases of {sum(len(case.rows) for case in cases):,} rows")
        kept = [case for case in cases if case.what.startswith("generated") or case.what in KEPT.get(name, ())]
        golden[name] = {
            "code": f"{repository} at {COMMITS[repository]}",
            "cases": [{"what": case.what, "figures": case.figures, "rows": packed(case.rows)} for case in kept],
        }
    print("\n".join(wrong) or "no figure differs")
    if given.write:
        GOLDEN.write_text(_spelt(golden))
        print(f"written: {GOLDEN}")
    sys.exit(bool(wrong))


def _spelt(golden: Mapping[str, Any]) -> str:
    """JSON with a case a line."""
    parts = []
    for name, one in golden.items():
        cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in one["cases"])
        parts.append(f'"{name}": {{"code": {json.dumps(one["code"])}, "cases": [\n{cases}\n]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
