"""``--dry-run``: what a command would ask, without asking it. Nothing is loaded but the tokenizer, and nothing is written."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.rule import Rule

from judges import catalog
from judges.backend import LocalBackend
from judges.data.rows import read_rows
from judges.decoding import Decoding
from judges.engines import EngineSettings, weights
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine, EngineIdentity, Generation, Request
from judges.errors import MagistrateError, RequestError, counted
from judges.judge import Judge, Message, Prompt, Sample
from judges.runner import PreparedSample
from judges.summary import Summary
from judges.verdict import Verdict
from judges.verdict_lines import numbered_verdicts, sidecar

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the first prompt and what would be asked; load the tokenizer alone."),
]

ENCODING = " (`--encoding` reads another encoding)"

MEASURED = 1000
"""Prompts whose tokens are counted; the others are taken to be like them."""


@dataclass
class Previewed(Exception):  # noqa: N818 -- it ends a run, and is no error
    """What a run was about to ask.

    Attributes:
        asked: The first prompt, as the model reads it.
        lines: What is known of all prompts, a sentence each.
    """

    asked: str
    lines: Sequence[str]


class PreviewSettings(EngineSettings):
    """The settings of an engine that shows its first request and answers none."""

    def open(self) -> Engine:
        """Make the engine; arguments and errors are those of ``EngineSettings.open``."""
        return PreviewEngine(self)

    def backend(self, judge: Judge, decoding: Decoding) -> PreviewBackend:
        """Make what shows all samples that a judge would be asked about."""
        return PreviewBackend(judge, PreviewEngine(self), decoding)


class PreviewEngine(Engine):
    """An engine that loads its tokenizer alone, and shows its first request."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._real = EngineSettings(**settings.model_dump()).without_cluster().open()
        self.concurrency, self.max_alternatives = self._real.concurrency, self._real.max_alternatives
        self._chat: ChatTokenizer | None = None

    async def identify(self) -> None:
        await self._real.identify()
        self.supports_prefill = self._real.supports_prefill

    @property
    def identity(self) -> EngineIdentity:
        return self._real.identity

    async def start(self) -> None:
        settings = self._settings
        if settings.engine != "endpoint" and settings.server is None and settings.model is not None:
            folder = weights.locate(catalog.repository(settings.model), settings.revision)
            self._chat = ChatTokenizer.load(folder)
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.context = settings.max_model_len or config.get("max_position_embeddings")

    async def close(self) -> None:
        await self._real.close()

    async def generate(self, request: Request) -> Generation:
        ids = self.ids(request)
        lines = [f"the first prompt has {counted(len(ids), 'token')}"] if ids is not None else []
        raise Previewed(
            self.shown(request.messages, ids), [*lines, f"its answer may have {counted(request.max_tokens, 'token')}"]
        )

    def ids(self, request: Request) -> list[int] | None:
        """The tokens of a prompt; ``None`` where a server has the tokenizer, or the template refuses it."""
        if self._chat is None:
            return None
        try:
            return self._chat.asked(request)
        except RequestError:
            return None

    def shown(self, messages: Sequence[Message], ids: list[int] | None) -> str:
        """A prompt as the model reads it, or its messages where a server applies the template."""
        if ids is not None and self._chat is not None:
            return str(self._chat.tokenizer.decode(ids))
        return "\n\n".join(f"{message.role}: {message.content}" for message in messages)


class PreviewBackend(LocalBackend):
    """A judge that looks at every sample, and asks about none."""

    def __init__(self, judge: Judge, engine: PreviewEngine, decoding: Decoding) -> None:
        super().__init__(judge, engine, decoding)
        self._engine = engine
        self._think = decoding.think or judge.thinks

    async def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        first: Prompt | None = None
        count = letters = answers = overlong = 0
        context = self._engine.context
        measured: list[list[int]] = []
        for sample in samples:
            assert sample.rendered is not None
            for prompt in sample.rendered.prompts:
                first = first or prompt
                count += 1
                answers += prompt.form.max_tokens + self._think
                letters += sum(len(message.content) for message in prompt.messages)
                if count <= MEASURED and (ids := self._engine.ids(Request.of(prompt))) is not None:
                    measured.append(ids)
                    overlong += context is not None and len(ids) + prompt.form.max_tokens + self._think > context
            await asyncio.sleep(0)  # an interrupt arrives here
        assert first is not None
        asked = self._engine.shown(first.messages, self._engine.ids(Request.of(first)))
        raise Previewed(asked, _lines(count, letters, answers, measured, overlong, context))
        yield  # it is a generator, as every backend's


def _lines(
    count: int, letters: int, answers: int, measured: Sequence[Sequence[int]], overlong: int, context: int | None
) -> list[str]:
    lines = [f"{counted(count, 'prompt')} would be asked, with room for {answers:,} tokens of answers"]
    if not measured:
        return [*lines, f"the prompts have {letters:,} characters; their tokens are the server's to count"]
    lengths = sorted(map(len, measured))
    mean = sum(lengths) / len(lengths)
    whole = sum(lengths) if count == len(lengths) else round(mean * count)
    about = "" if count == len(lengths) else f" (by the first {len(lengths):,})"
    if lengths[0] == lengths[-1]:
        lines.append(f"a prompt has {lengths[0]:,} tokens; all have {whole:,}{about}")
    else:
        lines.append(f"a prompt has {lengths[0]:,} to {lengths[-1]:,} tokens, {mean:,.0f} on average; all have {whole:,}{about}")
    if overlong:
        lines.append(f"{counted(overlong, 'prompt')} would not fit the context of {context:,} tokens with the answer{about}")
    pairs = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*measured, strict=False))
    if len(measured) > 1 and (shared := sum(1 for _ in pairs)):
        lines.append(f"the first {shared:,} tokens are the same in all, which an engine computes once")
    return lines


@contextmanager
def previewed(settings: EngineSettings, output: Path, *, wanted: bool) -> Iterator[tuple[EngineSettings, Path]]:
    """Give a command its engine's settings and its output, or those of a dry run, which ends the command where it would ask.

    What an earlier run left is copied, so that only what is missing is looked at, and faults are found as a run finds them.

    Raises:
        typer.Exit: The dry run has shown what it found.
        MagistrateError: A server that judges would be asked.
    """
    if not wanted:
        yield settings, output
        return
    if settings.server is not None:
        raise MagistrateError("`--dry-run` has no meaning with `--server`, which has the model's tokenizer; leave one out")
    with tempfile.TemporaryDirectory(prefix="magistrate-") as folder:
        scratch = Path(folder) / (output.name or "output")
        _copy(output, scratch)
        try:
            with redirect_stdout(io.StringIO()):  # a command that has nothing to ask would print its report
                yield PreviewSettings(**settings.model_dump()), scratch
        except Previewed as found:
            _show(found, _found_before(scratch))
            raise typer.Exit from None
        _say(Console(), "nothing is left to ask; nothing was judged or written (`--dry-run`)")
        raise typer.Exit


def say_columns(source: Path, judge: Judge, columns: Mapping[str, str], encoding: str | None) -> None:
    """Print the columns of a file's first row that can be read, and which of them the judge reads."""
    first = next((row.sample for row in read_rows(source, encoding) if row.sample is not None), {})
    read = [name if name == column else f"{name} from {column}" for name, column in _read_columns(judge, first, columns)]
    console = Console(file=sys.__stdout__)
    _say(console, f"{source}: columns {', '.join(map(str, first))}")
    _say(console, f"judge {judge.name} reads {', '.join(read) or 'every column'}")


def _read_columns(judge: Judge, sample: Sample, columns: Mapping[str, str]) -> list[tuple[str, str]]:
    names = [name for name in ("id", *judge.fields.names) if name in columns or name in sample]
    return [(name, columns.get(name, name)) for name in names]


def _copy(output: Path, scratch: Path) -> None:
    if output.is_dir():
        shutil.copytree(output, scratch)
    elif output.is_file():
        shutil.copyfile(output, scratch)
        if sidecar(output).is_file():
            shutil.copyfile(sidecar(output), sidecar(scratch))


def _found_before(output: Path) -> Summary | None:
    """The verdicts that a file has without asking: those of an earlier run, and those of rows that cannot be judged."""
    return Summary.of(verdict for _, verdict in numbered_verdicts(output)) if output.is_file() else None


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _show(found: Previewed, before: Summary | None) -> None:
    console = Console()
    say = partial(_say, console)
    if before is not None and before.scored:
        say(f"{before.scored:,} are scored by an earlier run")
    for reason, count in before.unscored.most_common() if before is not None else ():
        say(f"{count:,} unscored: {reason}{ENCODING if 'is not UTF-8' in reason else ''}")
    for line in found.lines:
        say(line)
    console.print(Rule("the first prompt, as the model reads it", style="dim"))
    say(found.asked)
    console.print(Rule(style="dim"))
    say("nothing was judged or written (`--dry-run`)")
