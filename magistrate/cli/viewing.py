"""``magistrate view``: a page on which verdicts are read, with what was asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from evals.reports.verdict_page import Entry, write_page
from judges import catalog
from judges.data.files import same_file
from judges.data.rows import local, read_rows, renamed
from judges.errors import MagistrateError, reason_of
from judges.judge import Judge
from judges.jury import JURY
from judges.runner import prepare
from judges.texts import TextReader, Texts, texts_beside
from judges.verdict import Verdict
from judges.verdict_lines import known_fingerprints, numbered_verdicts, sidecar
from magistrate.cli.flags import JudgeFlags
from magistrate.cli.output import STANDARD_OUTPUT

NO_INPUT = "Prompts are shown with `magistrate view --input FILE`, answers where the run had `--keep-texts`."
OF_A_JURY = "A jury's verdict combines those of its members: view their files, which lie beside it."
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
    first = next((verdict for _, verdict in numbered_verdicts(verdicts)), None)
    if first is None:
        raise MagistrateError(f"{verdicts} holds no verdicts")
    kept = TextReader(texts_beside(verdicts))
    if source is None:
        rendered, without = {}, OF_A_JURY if first.judge == JURY else NO_INPUT
    else:
        rendered, without = _rendered(verdicts, source, _judge(verdicts, first, judging), columns, encoding), ANOTHER
        if not rendered and not len(kept):
            asked = f"no row of {source} gives a prompt that a verdict of {verdicts} was reached on"
            raise MagistrateError(f"{asked}; give the judge's options as the run had them")
    count = 0

    def entries() -> Iterator[Entry]:
        nonlocal count
        for _, verdict in numbered_verdicts(verdicts):
            count += 1
            yield Entry.of(verdict, kept.of(verdict) or rendered.get(verdict.sample), without)

    try:
        write_page(output, verdicts.name, entries())
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {reason_of(error)}") from error
    return count


def check_page(page: Path, verdicts: Path, source: Path | None) -> None:
    """Check that a page may be written to a path.

    Raises:
        MagistrateError: It is a folder or standard output, or would replace a file of the run.
    """
    if page == STANDARD_OUTPUT or not page.name or page.is_dir():
        raise MagistrateError(f"`-o {page}` is not the name of a file; give the page one, such as verdicts.html")
    for file in (verdicts, sidecar(verdicts), texts_beside(verdicts), source):
        if file is not None and same_file(page, file):
            raise MagistrateError(f"{page} is an input; give `-o` another file")


def _rendered(verdicts: Path, source: Path, judge: Judge, columns: Mapping[str, str], encoding: str | None) -> dict[str, Texts]:
    """The prompts of an input, for the samples that have verdicts."""
    wanted = {verdict.sample for _, verdict in numbered_verdicts(verdicts)}
    prepared = (prepare(renamed(row, columns), judge) for row in read_rows(source, encoding))
    return {
        sample.key: Texts([prompt.messages for prompt in sample.rendered.prompts], ())
        for sample in prepared
        if sample.rendered is not None and sample.key in wanted
    }


def _judge(verdicts: Path, first: Verdict, judging: JudgeFlags) -> Judge:
    """The judge that is named, or the one of the file.

    Raises:
        MagistrateError: There is no such judge or option, or the file is a jury's or a rubric's, whose file is not named.
    """
    fields = known_fingerprints(verdicts).get(first.fingerprint)
    name = judging.judge or (str(fields.get("judge", first.judge)) if isinstance(fields, dict) else first.judge)
    if name == JURY:
        raise MagistrateError(f"{verdicts} holds a jury's verdicts, which have no prompts; view the files of its members")
    if judging.judge is None and name not in catalog.JUDGES:
        raise MagistrateError(f"the verdicts are of judge `{name}`; give its rubric as `--judge FILE.toml`")
    return catalog.open_judge(name, judging.options(), **judging.own_options(name))
