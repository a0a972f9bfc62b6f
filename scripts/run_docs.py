"""Runs the commands and programs that the guides show, in their order, on real data and a small model, and prints which fail.

    .venv/bin/python -m scripts.run_docs [--list] [--only PATTERN] [--seconds 600] [--dtype float32] [--data ../shared/data]

A command runs as it is printed but for this: the model is the one given, numbers of rows and steps are small, an output that
exists is removed first, and the server that it asks is one that this script starts. ``magistrate serve`` runs until the server is
ready. What users bring and nobody ships, questions or labels, ``docs_files.py`` makes. A command that needs another machine is
passed over with the reason. Exits with 1 if a command fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import typer

from judges.catalog import EMBEDDED, MODELS
from judges.templates.shipped import TEMPLATES
from magistrate.cli.main import app
from scripts.docs_files import DIALOGUES, ROOT, Files, shipped

COMMAND = re.compile(r"^    (magistrate (?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"\s{2,}#.*$", re.MULTILINE)
ELLIPSIS = re.compile(r"(^|\s)\.\.\.(\s|$)|\bNAME\b|\bSTRONG\b|\bWEAK\b")

ELSEWHERE = {
    "postgresql://": "a database of PostgreSQL",
    "judges fetch": "the network: the authors' files are fetched, and none ships",
    "models fetch prometheus": "the network",
    "Dataset/LLMBar": "LLMBar's folder",
    "--members 24gb": "a GPU, and the authors' files",
    "magistrate doctor": "nothing: it is its own test",
    "--judge reward": "a reward model",
    "--judge groundedness": "a classifier",
    "finetune reward": "pairs that people compared, on questions of two kinds",
    "finetune grouse --data answers.jsonl --model": "a strong judge: a small one fills its room of 2,048 tokens",
}
"""Part of a command to what it needs."""

AUTHORS = [name for name, entry in MODELS.items() if entry.judge in TEMPLATES]
"""Models whose judges ask in their authors' words."""

ELSEWHERE |= {f"--model {name}": "its authors' file and model" for name in AUTHORS}
ELSEWHERE |= {f"--judge {name} --model": "its authors' file and model" for name in TEMPLATES}

SERVER = "http://127.0.0.1:8700"
"""Where ``magistrate serve`` listens unless another address is given."""

REASONING = ("arena run", "meta grouse", "meta preferences", "meta benchmark pandalm", "--judge pairwise", "--judge grouse")
"""Parts of commands whose judge gives long reasons, of which a small model makes the most."""

LIMITS = {"arena run": 2, "finetune augment": 36}
"""Commands to numbers of rows: a row of an arena is a game of every pair, and few rows of a training set are of one domain."""

HOSTED = "judge"
"""The model of that server, as the guide's models.toml calls it."""

INPUT = re.compile(r"[\w./-]+\.(?:jsonl?|csv|eval|parquet|xlsx|toml|txt)")


@dataclass(frozen=True, slots=True)
class Documented:
    """A command of a guide: its page and its words."""

    page: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a command: its outcome, its seconds, and why it did not run or what it said as it failed."""

    outcome: str
    seconds: float = 0.0
    said: str = ""


def documented(pages: list[Path], variables: Mapping[str, str]) -> Iterator[Documented]:
    """Yield each command once, in the order of the guides, with the shell's variables and patterns of files filled in."""
    seen: set[tuple[str, ...]] = set()
    for page in pages:
        shown = page.read_text(encoding="utf-8")
        found = [*COMMAND.finditer(shown), *PROGRAM.finditer(shown)]
        for match in sorted(found, key=lambda match: match.start()):
            if match.re is PROGRAM:
                yield Documented(str(page.relative_to(ROOT)), ("python", "-c", match[1]))
                continue
            text = COMMENT.sub("", match[1]).replace("\\\n", " ")
            for name, value in variables.items():
                text = text.replace(name, value)
            words = tuple(file for word in shlex.split(text) for file in _expanded(word))
            if words not in seen:
                seen.add(words)
                yield Documented(str(page.relative_to(ROOT)), words)


def _expanded(word: str) -> list[str]:
    if "*" not in word or not word.startswith("/"):
        return [word]
    return [str(file) for file in sorted(Path("/").glob(word[1:]))] or [word]


def variables(data: Path) -> dict[str, str]:
    """The shell's variables that the guide to the arena sets, and the folder of the data as the guides name it."""
    answers = sorted((data / "vicuna" / "answer").glob("*.jsonl"))
    named = " ".join(f"--answers {file.stem.removeprefix('answer_')}={file}" for file in answers)
    return {"$ANSWERS": named, "$V": str(data / "vicuna"), "../shared/data": str(data)}


class Workspace:
    """A folder in which commands find the files that they name."""

    def __init__(self, folder: Path, data: Path, model: str, rows: int, dtype: str | None) -> None:
        self.folder = folder
        self.model = model
        self.few: dict[str, int | str] = {
            "--limit": rows,
            "--most": 5,
            "--seeds": 1,
            "--rows": 4,
            "--added": 2,
            "--held-out": 2,
            "--training": 4,
            "--max-tokens": 32,
        }
        if dtype:
            self.few["--dtype"] = dtype
        self.root = typer.main.get_command(app)
        known = shipped(data)
        self.files = Files(folder, known, model, rows, dtype)
        for name in ("magistrate", "docs"):
            (folder / name).symlink_to(ROOT / name)
        for name, file in {"answer": data / "vicuna" / "answer", **known}.items():
            if name not in self.files.makers:
                (folder / name).symlink_to(file)

    def adapt(self, words: tuple[str, ...]) -> list[str]:
        """The words as they are run: the given model, our server, a training of a few steps, and few rows."""
        if words[0] == "python":
            return [word.replace(EMBEDDED, self.model) for word in words]
        changed = [self._ours(words, place) for place in range(len(words))]
        flags = self._flags(changed)
        few = self.few | {"--limit": LIMITS.get(" ".join(changed[1:3]), self.few["--limit"])}
        for flag, number in few.items():
            if flag in changed:
                changed[changed.index(flag) + 1] = str(number)
            elif flag in flags and not self._keeps(flag, changed):
                changed += [flag, str(number)]
        if any(part in " ".join(changed) for part in REASONING) and "arena.toml" not in changed:
            changed += ["-O", "max_tokens=96"]
        if "--recipe" in flags and "--recipe" not in changed:
            changed += ["--recipe", "recipe.toml"]
        return changed

    def _keeps(self, flag: str, words: list[str]) -> bool:
        """Whether a command is run without a flag of ours that it knows."""
        if "arena.toml" in words:
            return True
        if flag == "--limit":
            return any((self.folder / word).resolve() == DIALOGUES for word in words)
        return flag == "--dtype" and bool({"--server", "--base-url"} & {*words})

    def _ours(self, words: tuple[str, ...], place: int) -> str:
        flag = words[place - 1]
        if words[place] in AUTHORS:  # its judge's prompts are read from a file that does not ship
            return words[place]
        if flag in ("--model", "--gptscore", "--embeddings") and "--server" not in words:
            return HOSTED if "--base-url" in words else self.model
        return {"--base-url": f"{SERVER}/v1", "--server": SERVER, "--recipe": "recipe.toml"}.get(flag, words[place])

    def _flags(self, words: list[str]) -> set[str]:
        command = self.root
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word, command)
        return {flag for option in command.params for flag in option.opts}

    def reason_to_pass(self, words: list[str], *, make: bool) -> str | None:
        """Why a command cannot run here; ``None`` if it can. Makes what it reads."""
        if awaited := next((thing for part, thing in ELSEWHERE.items() if part in " ".join(words)), None):
            return f"needs {awaited}"
        if words[0] != "python" and ELLIPSIS.search(" ".join(words)):
            return "is a pattern with parts left out"
        outputs = {words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-o", "--output")}
        read = (
            re.findall(r'open\("([^"]+)", "rb"\)', words[2])
            if words[0] == "python"
            else [word.rpartition("=")[2] for word in words]
        )
        for name in read:
            known = name in self.files.makers or (self.folder / name).exists()
            if INPUT.fullmatch(name) and name not in outputs and not (self.files.make(name) if make else known):
                return f"reads {name}, which is not here"
        return None

    def run(self, words: list[str], seconds: float) -> Run:
        """Run a command, with a server beside it if it asks one."""
        for place, word in enumerate(words[:-1]):
            if word in ("-o", "--output"):
                _remove(self.folder / words[place + 1])
        if words[1] == "serve":
            return self._serve(words, seconds)
        if SERVER not in " ".join(words) and words[1:3] != ["finetune", "load"]:
            return self._run(words, seconds)
        server = self._start(["magistrate", "serve", "--models", "models.toml", "--adapters", "runs/"])
        try:
            return self._run(words, seconds) if _ready(server, seconds) else Run("exit 1", seconds, self._last_line())
        finally:
            _stop(server)

    def _serve(self, words: list[str], seconds: float) -> Run:
        began = time.perf_counter()
        server = self._start(words)
        ready = _ready(server, seconds)
        status = _stop(server)
        took = time.perf_counter() - began
        return Run("ok", took) if ready and status in (0, 130) else Run(f"exit {status}", took, self._last_line())

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        self.files.make("models.toml")
        (self.folder / "runs").mkdir(exist_ok=True)
        with (self.folder / "server.log").open("w") as log:
            command = [sys.executable, "-m", *words]
            return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _last_line(self) -> str:
        return _last((self.folder / "server.log").read_text(encoding="utf-8"))

    def _run(self, words: list[str], seconds: float) -> Run:
        began = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, *words[1:]] if words[0] == "python" else [sys.executable, "-m", *words],
                cwd=self.folder,
                env={**os.environ, "COLUMNS": "160", "HF_HUB_OFFLINE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Run("exit 124", seconds, f"took more than {seconds:.0f} s")
        took = time.perf_counter() - began
        return Run("ok", took) if done.returncode == 0 else Run(f"exit {done.returncode}", took, _last(done.stdout))


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _ready(server: subprocess.Popen[bytes], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while server.poll() is None and time.monotonic() < end:
        try:
            if httpx.get(f"{SERVER}/ready", timeout=5).status_code == httpx.codes.OK:
                return True
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    return False


def _stop(server: subprocess.Popen[bytes]) -> int:
    server.send_signal(signal.SIGINT)
    return server.wait(120)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    for left in path.parent.glob(f"{path.name}*") if path.name else ():
        left.unlink()


def main() -> int:
    """Run the commands and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--dtype", help="number format of the model; float32 is faster on a CPU without arithmetic in bfloat16")
    parser.add_argument("--only", default="", help="a regular expression of page and command")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), options.data.resolve(), options.model, options.rows, options.dtype)
        for command in documented(pages, variables(options.data.resolve())):
            words = workspace.adapt(command.words)
            text = " ".join(shlex.join(words).split())
            if not re.search(options.only, f"{command.page} {text}"):
                continue
            if reason := workspace.reason_to_pass(words, make=not options.list):
                run = Run("passed over", 0.0, reason)
            elif options.list:
                run = Run("to run")
            else:
                run = workspace.run(words, options.seconds)
            failed += run.outcome.startswith("exit")
            said = f"\n    {run.said}" if run.said else ""
            print(f"{run.outcome:11} {run.seconds:6.0f} s  {command.page}: {text[:200]}{said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
