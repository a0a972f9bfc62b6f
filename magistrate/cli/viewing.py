"""``magistrate view``: a page on which verdicts are read, with what was asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from evals.reports.verdict_page import Entry, write_page
from judges import catalog
from judges.data.rows import local, read_rows, renamed
from judges.errors import MagistrateError, reason_of
from judges.judge import Judge
from judges.runner import prepare
from judges.texts import TextReader, Texts, texts_beside
from judges.verdict import Verdict
from judges.verdict_lines import known_fingerprints, numbered_verdicts
from magistrate.cli.flags import JudgeFlags

NO_INPUT = "Prompts are shown with `magistrate view --input FILE`, answers where the run had `--keep-texts`."
ANOTHER = "The input has no row that the judge is shown the same of: it has changed since, or the judge had other options."


def view_file(
    verdicts: Path, output: Path, source: Path | None, judging: JudgeFlags, columns: Mapping[str, str], encoding: str | None
) -> int:
    """Write the page of a file of verdicts. Returns how many there are.

    Args:
        verdicts: The file.
        output: The page.
        source: The samples, to render their prompts again.
        judging: The judge and its options, if they are not those of the file's fingerprint by default.
        columns: Field of a sample to its column.
        encoding: Encoding of a CSV file.

    Raises:
        MagistrateError: A file cannot be read or written, or holds no verdicts.
    """
    verdicts = local(verdicts)
    kept = TextReader(texts_beside(verdicts))
    rendered: dict[str, Texts] = {}
    if source is not None:
        judge = _judge(verdicts, judging)
        prepared = (prepare(renamed(row, columns), judge) for row in read_rows(source, encoding))
        wanted = {verdict.sample for _, verdict in numbered_verdicts(verdicts)}
        rendered = {
            sample.key: Texts([prompt.messages for prompt in sample.rendered.prompts], ())
            for sample in prepared
            if sample.rendered is not None and sample.key in wanted
        }
        if not rendered and not len(kept):
            asked = f"no row of {source} gives a prompt that a verdict of {verdicts} was reached on"
            raise MagistrateError(f"{asked}; give the judge's options as the run had them")
    without = NO_INPUT if source is None else ANOTHER
    count = 0

    def entries() -> Iterator[Entry]:
        nonlocal count
        for _, verdict in numbered_verdicts(verdicts):
            count += 1
            yield Entry.of(verdict, kept.of(verdict.sample) or rendered.get(verdict.sample), without)

    try:
        write_page(output, verdicts.name, entries())
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {reason_of(error)}") from error
    if not count:
        output.unlink()
        raise MagistrateError(f"{verdicts} holds no verdicts")
    return count


def _judge(verdicts: Path, judging: JudgeFlags) -> Judge:
    """The judge that is named, or the one of the file."""
    name = judging.judge or _judge_of(verdicts)
    return catalog.open_judge(name, judging.options(), **judging.own_options(name))


def _judge_of(verdicts: Path) -> str:
    first: Verdict | None = next((verdict for _, verdict in numbered_verdicts(verdicts)), None)
    if first is None:
        raise MagistrateError(f"{verdicts} holds no verdicts")
    fields = known_fingerprints(verdicts).get(first.fingerprint)
    return str(fields.get("judge", first.judge)) if isinstance(fields, dict) else first.judge
