"""The card as a page: one file, which asks for nothing else and runs no script; and the files of a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from evals.meta.card.card import Card
from evals.meta.card.marks import LEAST, Mark
from evals.meta.card.tables import reasons
from evals.meta.card.words import facts, lead, parts, title
from evals.reports.files import as_json
from evals.reports.html import environment, policy
from evals.reports.wording import label
from evals.whole_files import write_whole
from judges.errors import MagistrateError

TEMPLATES = Path(__file__).parent / "templates"

GLYPHS = {"good": "●", "weak": "▲", "not measured": "○"}
"""A mark's sign, beside its word."""


def page(card: Card, marks: Sequence[Mark]) -> str:
    """The page as HTML.

    Args:
        card: As ``make_card`` gives it.
        marks: Those of its parts.
    """
    return (
        environment("evals.meta.card")
        .get_template("card.html")
        .render(
            title=label(title(card)),
            lead=lead(marks),
            notes=[f"{note[:1].upper()}{note[1:]}." for note in card.notes],
            parts=parts(card, marks),
            glyphs=GLYPHS,
            reasons=reasons,
            facts=facts(card),
            least=LEAST,
            level=f"{100 * card.options['level']:g}%",
            style_of_card=(TEMPLATES / "card.css").read_text(encoding="utf-8"),
            policy=policy(),
        )
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
    files = {"index.html": page(card, marks), "card.json": as_json(figures)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [write_whole(folder / name, text) for name, text in files.items()]
    except OSError as error:
        raise MagistrateError(f"the card cannot be written to {folder}: {error.strerror or error}") from error
