"""What all pages have in common: the head, the style, and how text comes into them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from evals.plain_text import plain
from evals.reports.charts import theme
from evals.reports.wording import count, counted, interval, label, line, listed, number

PACKAGE = "evals.reports"
TEMPLATES = Path(__file__).parent / "templates"


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
    words = (number, count, line, label, listed, counted, interval)
    made.filters |= {one.__name__: one for one in words}
    made.globals |= {
        "light": theme.LIGHT,
        "dark": theme.DARK,
        "fonts": {"serif": theme.SERIF, "sans": theme.SANS, "mono": theme.MONO},
        "style": (TEMPLATES / "style.css").read_text(encoding="utf-8"),
    }
    return made


def policy(scripts: Sequence[str] = ()) -> str:
    """What a browser lets a page do: run these scripts, and ask for nothing."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
