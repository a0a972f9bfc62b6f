"""Documents as pages: one file each, which asks for nothing else. And what all pages have in common."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from evals.plain_text import plain
from evals.reports.charts import theme
from evals.reports.document import Block, Document, Examples, Heading, Link, Mark, Name, Shown, Strong, Words, blocks_of, parts_of
from evals.reports.wording import count, counted, interval, label, line, listed, number

PACKAGE = "evals.reports"
TEMPLATES = Path(__file__).parent / "templates"

GLYPHS = {"good": "●", "weak": "▲", "not measured": "○"}
"""A mark's sign, beside its word."""


def page(document: Document, script: str | None = None) -> str:
    """The document as a page.

    Args:
        document: Whose blocks for pages are shown.
        script: What the page runs, if anything. It finds the examples' data under the id ``examples``.
    """
    head, sections = _sections(_shown(document.blocks))
    scripts = [] if script is None else [script]
    data = [block.data for _, blocks in sections for block in blocks if isinstance(block, Examples)]
    return (
        environment()
        .get_template("document.html")
        .render(
            document=document,
            head=head,
            sections=sections,
            scripts=[Markup(one) for one in scripts],
            data=data,
            policy=policy(scripts),
        )
    )


@cache
def environment(package: str = PACKAGE) -> Environment:
    """Jinja with the templates of a package, which may extend ``frame.html``, and of this one."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in dict.fromkeys((package, PACKAGE))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=plain,  # whatever a template shows comes through here, so no text of anyone's is forgotten
    )
    words = (number, count, line, label, listed, counted, interval, inline)
    made.filters |= {one.__name__: one for one in words} | {"kind": lambda block: type(block).__name__, "shown": _shown}
    made.globals |= {
        "light": theme.LIGHT,
        "dark": theme.DARK,
        "fonts": {"serif": theme.SERIF, "sans": theme.SANS, "mono": theme.MONO},
        "style": (TEMPLATES / "style.css").read_text(encoding="utf-8"),
        "key_of": key_of,
    }
    return made


def policy(scripts: Sequence[str] = ()) -> str:
    """What a browser lets a page do: run these scripts, and ask for nothing."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def inline(text: Words) -> Markup:
    """A text with its parts as elements. Nothing of it is markup that is not to be."""
    return Markup("").join(_part(part) for part in parts_of(text))


def _shown(blocks: Iterable[Block]) -> list[Shown]:
    return list(blocks_of(blocks, "html"))


def _part(part: str) -> Markup:
    said = escape(plain(str(part)))
    match part:
        case Strong():
            return Markup("<strong>{}</strong>").format(said)
        case Name():
            return Markup("<bdi>{}</bdi>").format(said)
        case Link():
            return Markup('<a href="#{}">{}</a>').format(part.part, said)
        case Mark():
            sign = Markup('<span class="mark {}"><span aria-hidden="true">{}</span> {}</span>')
            return sign.format(part.replace(" ", "-"), GLYPHS[part], said)
    return said


def key_of(heading: Heading) -> str:
    """What links call a part."""
    return heading.key or re.sub(r"\W+", "-", "".join(parts_of(heading.text)).lower()).strip("-")


def _sections(blocks: Iterable[Shown]) -> tuple[list[Shown], list[tuple[Heading, list[Shown]]]]:
    """What stands before the first part, and the parts."""
    head: list[Shown] = []
    sections: list[tuple[Heading, list[Shown]]] = []
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            sections.append((block, []))
        else:
            (sections[-1][1] if sections else head).append(block)
    return head, sections
