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

from evals.reports.charts import theme
from evals.reports.document import (
    Block,
    Document,
    Heading,
    Implied,
    Link,
    LiveCharts,
    Mark,
    Name,
    Shown,
    Signed,
    Strong,
    Words,
    blocks_of,
    parts_of,
)
from evals.reports.wording import count, counted, interval, is_absent, label, line, listed, number, opening, plain

PACKAGE = "evals.reports"
TEMPLATES = Path(__file__).parent / "templates"

_CODE = re.compile("`([^`]+)`")

GLYPHS = {"good": "●", "weak": "▲", "not measured": "○"}
"""A mark's sign, beside its word."""


def page(document: Document, scripts: Sequence[str] = (), data: object = None) -> str:
    """The document as a page.

    Args:
        document: The page shows its blocks for pages.
        scripts: What the page runs.
        data: What they go by, which they find as JSON under the id ``data``.
    """
    head, sections = _sections(_shown(document.blocks))
    has_live_charts = any(isinstance(block, LiveCharts) for _, blocks in sections for block in blocks)
    return (
        environment()
        .get_template("document.html")
        .render(
            document=document,
            head=head,
            sections=sections,
            scripts=[Markup(script) for script in scripts],
            data=data,
            has_live_charts=has_live_charts,
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
    words = (number, count, line, label, listed, counted, interval, inline, opening)
    made.filters |= {one.__name__: one for one in words} | {"kind": lambda block: type(block).__name__, "shown": _shown}
    made.tests["absent"] = is_absent
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


def coded(text: str) -> Markup:
    """A text in which what stands in backticks is shown as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(plain(text)))))


def _shown(blocks: Iterable[Block]) -> list[Shown]:
    return list(blocks_of(blocks, "html"))


def _part(part: str) -> Markup:
    if type(part) is str:
        return coded(part)
    said = escape(plain(str(part)))
    match part:
        case Strong():
            return Markup("<strong>{}</strong>").format(said)
        case Name():
            return Markup("<bdi>{}</bdi>").format(said)
        case Link():
            return Markup('<a href="#{}">{}</a>').format(part.part, said)
        case Signed():
            return _signed(part)
        case Implied():
            return Markup('<span class="kind">{}</span>').format(said)
        case Mark():
            sign = Markup('<span class="mark {}"><span aria-hidden="true">{}</span> {}</span>')
            return sign.format(part.replace(" ", "-"), GLYPHS[part], said)
    return said


def _signed(name: Signed) -> Markup:
    sign = Markup("")
    if name.number is not None:
        colour, glyph = theme.model_name(name.number), theme.GLYPHS[name.number % len(theme.GLYPHS)]
        sign = Markup('<span class="glyph {}" aria-hidden="true">{}</span> ').format(colour, glyph)
    return sign + Markup('<bdi class="model" title="{}">{}</bdi>').format(line(name), label(name))


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
