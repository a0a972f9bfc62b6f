"""Makes the files that commands of the guides read and nobody ships: users' questions, labels, rows to train on."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from evals.qualeval.annotation import QUESTIONS

ROOT = Path(__file__).parents[1]
DIALOGUES = ROOT / "magistrate" / "sample" / "dialogues.jsonl"
HARNESSES = ROOT / "tests" / "data" / "harnesses"
LOGS = {"samples_shop.jsonl": "lm_eval_shop.jsonl", "results.json": "promptfoo.json", "test_run.json": "deepeval.json"}
"""Names of other harnesses' logs in the guides to those of the tests."""

TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODEL = re.compile(r'^model = "[^"]*"', re.MULTILINE)


def shipped(data: Path) -> dict[str, Path]:
    """Name to the file that stands for it: those of the data, and the sample under the names of a user's rows in the guides."""
    files = {file.name: file for file in sorted(data.rglob("*")) if file.is_file()}
    own = ("dialogues.jsonl", "rows.jsonl", "samples.jsonl", "answers-a.jsonl", "answers-b.jsonl")
    described = {"my.toml": ROOT / "docs" / "judges" / "summary-quality.toml", "summaries.jsonl": files["human_judgment.jsonl"]}
    described |= {name: HARNESSES / file for name, file in LOGS.items()}
    return {**files, **dict.fromkeys(own, DIALOGUES), **described}


class Files:
    """Makes a file in a folder when a command needs it; ``model`` stands in the files that name one."""

    def __init__(self, folder: Path, known: Mapping[str, Path], model: str, rows: int, dtype: str | None) -> None:
        self.folder = folder
        self.known = known
        self.model = model
        self.rows = rows
        self.dtype = dtype
        self.makers: dict[str, Callable[[Path], None]] = {
            "dialogsum.dev.jsonl": self._evaluation,
            "questions.xlsx": self._questions,
            "arena.toml": self._arena,
            "jury.toml": self._jury,
            "models.toml": self._models,
            "tea.toml": self._template,
            "replies.jsonl": self._replies,
            "recipe.toml": self._recipe,
            "predictions.jsonl": self._predictions,
            "verdicts.jsonl": self._verdicts,
            "labels.csv": self._labels,
            "raters.csv": self._raters,
            "questions.csv": self._items,
            "rated.csv": self._rated,
            "training.jsonl": self._training,
            "validation.jsonl": self._training,
            "report/attributes.json": self._attributes,
            "scores.parquet": self._scores,
            "requests.jsonl": self._requests,
            "answers.jsonl": self._grounded,
            "batch.jsonl": self._batch,
            "nested.jsonl": self._nested,
            "run.eval": self._run,
            "pairs.jsonl": self._pairs,
            "examples.jsonl": self._examples,
            "candidates.json": self._candidates,
            "figures.json": self._figures,
            "domains.txt": self._domains,
            **{f"{name}.jsonl": self._answers for name in ("a", "b", "c", "chatglm2")},
            **{f"annotator-{number}.xlsx": self._annotator for number in (1, 2, 3)},
        }

    def make(self, name: str) -> bool:
        """Make the file of this name, if there is a way; return whether it is there now."""
        file = self.folder / name
        if not file.exists() and name in self.makers:
            file.parent.mkdir(exist_ok=True)
            self.makers[name](file)
        return file.exists()

    def _rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.known[name].read_text(encoding="utf-8").splitlines()]

    def _scored(self) -> list[dict[str, Any]]:
        verdicts = map(json.loads, (self.folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines())
        return [verdict for verdict in verdicts if verdict["scores"]]

    def _evaluation(self, file: Path) -> None:
        """A few rows of the dataset, since no flag of `finetune augment` leaves rows of its evaluation out."""
        write_lines(file, self._rows(file.name)[: 2 * self.rows])

    def _questions(self, file: Path) -> None:
        book = openpyxl.Workbook()
        assert book.active is not None
        answers = {row["question_id"]: row["text"] for row in self._rows("answer_bard.jsonl")}
        book.active.append(["index", "question", "capability", "gpt-4"])
        for row in self._rows("question.jsonl")[: self.rows // 3]:
            number = row["question_id"]
            book.active.append([number, row["turns"][0], row["category"], answers[number]])
        book.save(file)

    def _answers(self, file: Path) -> None:
        source = {"a": "gpt35", "b": "vicuna-13b", "c": "alpaca-13b", "chatglm2": "llama-13b"}[file.stem]
        write_lines(file, ({"index": row["question_id"], "answer": row["text"]} for row in self._rows(f"answer_{source}.jsonl")))

    def _toml_of(self, page: str, marker: str) -> str:
        """The TOML that a page shows and that holds the marker, with our model in place of each that it names."""
        blocks = TOML.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
        ours = f'model = "{self.model}"' + (f'\ndtype = "{self.dtype}"' if self.dtype else "")
        return MODEL.sub(ours, next(block for block in blocks if marker in block))

    def _arena(self, file: Path) -> None:
        for name in ("questions.xlsx", "chatglm2.jsonl"):
            self.make(name)
        file.write_text(
            self._toml_of("arena.md", "[[contestant]]")
            .replace("max_tokens = 2048", "max_tokens = 32")
            .replace("reasoning = true", "max_tokens = 96")
        )

    def _jury(self, file: Path) -> None:
        file.write_text(self._toml_of("judges/jury.md", "[[member]]"))

    def _template(self, file: Path) -> None:
        file.write_text(self._toml_of("judges/authors.md", 'name = "tea"').replace('"why"\n', '"why"\nmax_tokens = 32\n', 1))

    def _replies(self, file: Path) -> None:
        questions = {row["question_id"]: row["turns"][0] for row in self._rows("question.jsonl")}
        answers = self._rows("answer_bard.jsonl")
        write_lines(file, ({"question": questions[row["question_id"]], "answer": row["text"]} for row in answers))

    def _models(self, file: Path) -> None:
        file.write_text(self._toml_of("server.md", "[models.judge]") + "adapters = 4\n")

    def _recipe(self, file: Path) -> None:
        steps = {
            "learning_rates = [1e-3, 3e-3]": "learning_rates = [1e-3]",
            "length = 1024": "length = 4096",  # a prompt of GroUSE has 3,000 tokens
            "steps = 40": "steps = 2",
            "checkpoints = 10": "checkpoints = 2",
        }
        recipe = (ROOT / "finetune" / "recipes" / "tiny.toml").read_text(encoding="utf-8")
        for said, wanted in steps.items():
            recipe = recipe.replace(said, wanted)
        file.write_text(recipe.replace('"smollm2-135m"', f'"{self.model}"'))

    def _predictions(self, file: Path) -> None:
        rows = self._rows("dialogsum.dev.jsonl")[: 2 * self.rows]
        write_lines(file, ({"id": row["fname"], "prediction": row["dialogue"].splitlines()[0]} for row in rows))

    def _verdicts(self, file: Path) -> None:
        command = (sys.executable, "-m", "magistrate", "score", DIALOGUES, "--model", self.model, "-o", file)
        subprocess.run([*command, *(("--dtype", self.dtype) if self.dtype else ())], check=True, capture_output=True)

    def _labels(self, file: Path) -> None:
        """People who label two thirds of the samples, and every third a point below the judge."""
        verdicts = self._scored()
        verdicts = verdicts[: 2 * len(verdicts) // 3]
        metrics = list(verdicts[0]["scores"])
        labelled = (
            [verdict["id"], *(max(0, verdict["scores"][metric] - (number % 3 == 0)) for metric in metrics)]
            for number, verdict in enumerate(verdicts)
        )
        write_table(file, ["id", *metrics], labelled)

    def _raters(self, file: Path) -> None:
        verdicts = self._scored()
        metrics = list(verdicts[0]["scores"])
        rated = (
            [verdict["id"], rater, *(max(0, verdict["scores"][metric] - (number % (3 + place) == 0)) for metric in metrics)]
            for number, verdict in enumerate(verdicts)
            for place, rater in enumerate(("ann", "ben", "cyd"))
        )
        write_table(file, ["id", "rater", *metrics], rated)

    def _items(self, file: Path) -> None:
        ids = [row["id"] for row in self._rows("dialogues.jsonl") if "id" in row]
        write_table(file, ["id", "document"], ([identity, number // 2] for number, identity in enumerate(ids)))

    def _rated(self, file: Path) -> None:
        rows = [
            [number, str(row["context"]), row["response"], number // 2, 1 + number % 5, 1 + number % 4, 1 + number % 3]
            for number, row in enumerate(row for row in self._rows("dialogues.jsonl") if "context" in row)
        ]
        write_table(file, ["id", "question", "answer", "document", "anna", "bob", "tone"], rows)

    def _training(self, file: Path) -> None:
        rows = self._rows("dialogsum.train.jsonl")
        rows = rows[:16] if file.stem == "training" else rows[16:20]
        write_lines(file, ({"prompt": row["dialogue"], "completion": row["summary"]} for row in rows))

    def _attributes(self, file: Path) -> None:
        domains = ["Leisure", "Food ordering", "Hospitality", "Work"]
        file.write_text(json.dumps({"domain": domains, "subtask": ["Name the wish", "Leave out what does not matter"]}))

    def _scores(self, file: Path) -> None:
        names = ["Billing", "Delivery", "Returns"]
        columns = {name: [1 + (row * (place + 2)) % 5 for row in range(40)] for place, name in enumerate(names)}
        pq.write_table(pa.table({"id": list(range(40)), **columns}), file)

    def _requests(self, file: Path) -> None:
        write_lines(file, ({key: row[key] for key in ("input", "references", "expected_output")} for row in self._cases()))

    def _grounded(self, file: Path) -> None:
        write_lines(file, self._cases())

    def _cases(self) -> list[dict[str, Any]]:
        """GroUSE's cases in turns of its questions, so that a few of them are of several questions."""
        lines = (ROOT / "evals" / "meta" / "grounded" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
        questions: dict[str, list[dict[str, Any]]] = {}
        for case in map(json.loads, lines):
            questions.setdefault(case["input"], []).append(case)
        return [case for turn in zip(*questions.values(), strict=True) for case in turn]

    def _batch(self, file: Path) -> None:
        bodies = [{"judge": "llm-eval", "samples": [row]} for row in self._rows("dialogues.jsonl")[: self.rows]]
        bodies.append({"judge": "llm-eval", "samples": []})  # a line that fails, as the guide's last line prints
        line = {"method": "POST", "url": "/v1/judgments"}
        write_lines(file, ({"custom_id": str(number), **line, "body": body} for number, body in enumerate(bodies)))

    def _run(self, file: Path) -> None:
        """A log of inspect_ai with more epochs than the tests', since correlations take ten samples."""
        samples = json.loads((HARNESSES / "inspect.json").read_text())["samples"]
        with zipfile.ZipFile(file, "w") as log:
            log.writestr("header.json", "{}")
            for number in range(1, 7):
                for sample in samples[:3]:
                    log.writestr(f"samples/{sample['id']}_epoch_{number}.json", json.dumps(sample | {"epoch": number}))

    def _nested(self, file: Path) -> None:
        rows = [row for row in self._rows("dialogues.jsonl") if "response" in row][: self.rows]
        write_lines(file, ({"conversation": {"prompt": row["context"]}, "outputs": [row["response"]]} for row in rows))

    def _pairs(self, file: Path) -> None:
        rows = json.loads(self.known["testset-v1.json"].read_text(encoding="utf-8"))[: self.rows]
        names = {"question": "instruction", "answer_a": "response1", "answer_b": "response2"}
        write_lines(file, ({name: row[column] for name, column in names.items()} for row in rows))

    def _examples(self, file: Path) -> None:
        dialogues = [row["dialogue"] for row in self._rows("dialogsum.dev.jsonl")][:20]
        write_lines(file, ({"examples": dialogues[start : start + 5]} for start in range(0, 20, 5)))

    def _candidates(self, file: Path) -> None:
        names = ("Health", "Food", "Work", "School", "Travel", "Shopping", "Family", "Sport", "Music", "Law", "Money", "Weather")
        file.write_text(json.dumps([{"attributes": names}]))

    def _figures(self, file: Path) -> None:
        figures = re.search(r"^    (\[\{\"task_instruction\".*)$", (ROOT / "docs/judges/discovery.md").read_text(), re.MULTILINE)
        assert figures is not None
        file.write_text(figures[1])

    def _domains(self, file: Path) -> None:
        file.write_text("Food\nTravel\nWork\n")

    def _annotator(self, file: Path) -> None:
        """A sheet of the study in which an annotator says yes, and no in every third row."""
        book = openpyxl.load_workbook(self.folder / "report" / "annotation" / file.name)
        assert book.active is not None
        heads = [cell.value for cell in book.active[1]]
        for number in range(2, book.active.max_row + 1):
            for question in QUESTIONS.values():
                book.active.cell(number, heads.index(question) + 1, "yes" if number % 3 else "no")
        book.save(file)


def write_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON object a line."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_table(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file."""
    with file.open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows([header, *rows])
