"""The card as a document: a page and what the terminal shows; and the files of a card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from evals.meta.card.card import Card
from evals.meta.card.grades import LEAST, Mark
from evals.meta.card.parts import TITLES, part
from evals.meta.card.tables import reasons
from evals.reports.document import Block, Document, Facts, Heading, Link, Name, Notes, Only, Table, Text
from evals.reports.document import Mark as Sign
from evals.reports.files import as_json, write_files
from evals.reports.html import page
from evals.reports.wording import counted, label, line


def document(card: Card, marks: Sequence[Mark]) -> Document:
    """The card as a document.

    Args:
        card: As ``make_card`` gives it.
        marks: Those of its parts.
    """
    told: list[Block] = [Table(("property", "mark", "figure"), [(TITLES[one.key], one.word, one.says) for one in marks], 3)]
    return Document(
        label(f"{card.judge['name']} by {card.identity['model']}"),
        [Only("terminal", [*told, *card.notes]), Only("html", list(_blocks(card, marks)))],
        kicker="reliability card of a judge",
        dense=True,
        foot="Made by Magistrate. All figures are in card.json.",
    )


def write_card(folder: Path, card: Card, marks: Sequence[Mark]) -> list[Path]:
    """Write ``index.html`` and ``card.json``, each whole or not at all, and return them.

    Args:
        folder: Where to; it is made if need be.
        card: The card.
        marks: Those of its parts.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    figures = {**card.fields(), "marks": [asdict(mark) for mark in marks]}
    return write_files(folder, {"index.html": page(document(card, marks)), "card.json": as_json(figures)}, what="card")


def lead(marks: Sequence[Mark]) -> str:
    """The card in a sentence, from its marks."""
    found = [mark.word for mark in marks]
    said = ", ".join(f"{found.count(word)} {word}" for word in ("good", "weak", "not measured") if word in found)
    return f"Of {len(found)} properties: {said}."


def _blocks(card: Card, marks: Sequence[Mark]) -> Iterator[Block]:
    yield Text(lead(marks), "lead")
    yield from (Text(Name(line(f"{note[:1].upper()}{note[1:]}.")), "notice") for note in card.notes)
    yield Heading("Summary")
    yield Table(
        ("Property", "Mark", "Figure that decides"),
        [(Link(TITLES[mark.key], mark.key), Sign(mark.word), line(mark.says)) for mark in marks],
        texts=3,
        kind="summary",
    )
    yield Text(
        "Good and weak are rules of thumb, each by its threshold, which stands with it below; a figure of fewer than "
        f"{LEAST} samples decides nothing. Intervals hold {100 * card.options['level']:g}% of the time for other samples like "
        "these.",
        "aside",
    )
    for mark in marks:
        yield from _part(mark, card)
    yield Heading("What this is of", key="making")
    yield Facts(facts(card))


def _part(mark: Mark, card: Card) -> Iterator[Block]:
    reading, tables = part(mark.key, card)
    yield Heading(TITLES[mark.key], key=mark.key)
    yield Text((Sign(mark.word), " · ", line(mark.says)))
    for table in tables:
        if len(tables) > 1:
            yield Heading(table.caption, 3)
        yield Table(table.headings, table.rows, table.texts, label=f"{TITLES[mark.key]}: {table.caption}")
        yield from (Text((Name(reason), "."), "aside") for reason in reasons(table))
    if tables:
        yield Notes(reading, "reading")
    yield Text(f"Good where {mark.rule}.", "aside")


def facts(card: Card) -> list[tuple[str, str]]:
    """What the card is of and how it was made."""
    options = [f"{name} {value}" for name, value in card.judge["options"].items()]
    identity = card.identity
    return [
        (title, line(text))
        for title, text in [
            ("Judge", f"{card.judge['name']}, version {card.judge['version']}"),
            ("Options of the judge", ", ".join(options) or "none"),
            ("Model", identity["model"]),
            ("Weights", identity["weights"] or "the server does not tell"),
            ("Engine", f"{identity['engine']} {identity['engine_version']}, constraint {identity['constraint']}"),
            (
                "Settings of the engine",
                ", ".join(f"{name} {value}" for name, value in identity["options"].items() if value is not None) or "none",
            ),
            ("Fingerprint", card.fingerprint),
            ("Samples", f"{card.samples['file']}, {counted(card.samples['count'], 'sample')}, digest {card.samples['digest']}"),
            ("Judgements", f"{card.unscored.unscored.count:,} in {counted(len(card.unscored.runs), 'run')}"),
            ("Tokens", f"{card.unscored.prompt_tokens:,} of prompts, {card.unscored.completion_tokens:,} of answers"),
            ("How it was made", ", ".join(f"{name} {value}" for name, value in card.options.items())),
        ]
    ]
