"""The report as a page: one file, which asks for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evals.arena.counting import OVERALL
from evals.arena.pictures import STRONGEST, drawings, left_out
from evals.arena.text import WIN_RATES
from evals.arena.words import (
    bias_rows,
    called,
    fault_words,
    how_rated,
    judge_of,
    lead,
    rank,
    shares,
    style_words,
    success,
    win_rate_cells,
    win_rate_headings,
)
from evals.reports.html import environment, policy
from evals.reports.wording import NONE, counted, label, line, listed

TEMPLATES = Path(__file__).parent / "templates"

MOST = 30
"""Models that the table of meetings shows."""

KINDS = {"LANG": "Language", "CAPA": "Capability"}

Figures = Mapping[str, Any]


def page(report: Figures, examples: Figures | None = None) -> str:
    """The page as HTML.

    Args:
        report: As ``report.report`` gives it.
        examples: Questions, answers and verdicts to read, as ``keeping.examples`` gives them.
    """
    script = (TEMPLATES / "arena.js").read_text(encoding="utf-8")
    found = drawings(report)
    # Of one language that nobody names there is nothing to compare, though the guide has its picture.
    languages = [one for one in report["standings"] if one["kind"] == "LANG" and one["name"] != OVERALL and any(one["models"])]
    shown = [name for name in found if name != "by_lang" or languages]
    return (
        environment("evals.arena")
        .get_template("arena.html")
        .render(
            report=report,
            title=_title(report),
            lead=lead(report),
            success=success(report["counts"]),
            judge=judge_of(report),
            rank=lambda model: rank(report, model),
            taken=_taken(report),
            styled=bool(report["style"] and not report["style"]["reason"]),
            how_rated=how_rated(report),
            style_words=style_words(report),
            parts=_parts(report),
            called=called,
            left_out=lambda name: ". ".join(left_out(report, name)),
            drawings={name: Markup(found[name]) if name in shown else None for name in ("ratings", "by_capa", "by_lang")},
            meeting=lambda one, other: _meeting(report, one, other),
            most=MOST,
            win_rate_cells=win_rate_cells,
            win_rate_headings=win_rate_headings,
            win_rates_words=WIN_RATES,
            bias_rows=bias_rows(report),
            fault_words=fault_words,
            examples=None if examples is None else _readable(examples),
            facts=_facts(report),
            arena_style=(TEMPLATES / "arena.css").read_text(encoding="utf-8"),
            script=Markup(script),
            policy=policy([script]),
        )
    )


def _title(report: Figures) -> str:
    names = [label(called(name)) for name in report["models"]]
    return f"{listed(names)} compared" if len(names) <= 3 else f"{len(names)} models compared"


def _parts(report: Figures) -> list[dict[str, Any]]:
    """The parts of the battles in which anything is scored, each with a row for each model, as wide as its bars are."""
    return [
        {
            "title": "Everything"
            if (one["kind"], one["name"]) == ("LANG", OVERALL)
            else f"{KINDS[one['kind']]} {called(one['name'])}",
            "rows": [_stacked(model, one["models"][model]) for model in report["order"]],
        }
        for one in report["standings"]
        if any(one["models"])
    ]


def _stacked(model: int, cell: Figures | None) -> dict[str, Any]:
    if cell is None:
        return {"model": model, "bars": [], "shares": [NONE] * 4, "score": None, "games": 0}
    both = cell["not_bad"] - cell["win"]
    bars = [("win", cell["win"]), ("both", both), ("even", cell["tie"] - both), ("lose", cell["lose"])]
    return {
        "model": model,
        "bars": [(name, f"{100 * share:.2f}") for name, share in bars if share > 0],
        "shares": shares(cell).split(" / "),
        "score": cell["score"],
        "games": cell["games"],
    }


def _readable(examples: Figures) -> dict[str, Any]:
    """With names that stand on one line and turn nothing round. The texts stay as they are."""
    questions = [
        {
            **one,
            "index": called(one["index"]),
            "capability": line(one["capability"] or ""),
            "language": line(one["language"] or ""),
        }
        for one in examples["questions"]
    ]
    return {**examples, "models": [called(name) for name in examples["models"]], "questions": questions}


def _taken(report: Figures) -> list[str]:
    found = []
    for row in report["meetings"]:
        games = sum(met[1] for met in row)
        found.append(f"{sum(met[0] for met in row) / games:.1%}" if games else NONE)
    return found


def _meeting(report: Figures, one: int, other: int) -> dict[str, Any]:
    """A cell of the table of meetings: what it says, and how strong its colour is, in percent."""
    taken, games = report["meetings"][one][other]
    if one == other or not games:
        return {"side": "self", "title": "", "apart": 0, "share": NONE if one != other else "", "games": 0}
    share = taken / games
    names = [called(report["models"][model]) for model in (one, other)]
    return {
        "side": "above" if share >= 0.5 else "below",
        "title": f"{names[0]} takes {taken:g} of {counted(int(games), 'game')} with {names[1]}",
        "apart": round(200 * STRONGEST * abs(share - 0.5)),
        "share": f"{share:.0%}",
        "games": int(games),
    }


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{line(name)} {_told(one)}" for name, one in value.items())
    return line(str(value))


def _facts(report: Figures) -> list[tuple[str, str]]:
    titles = {
        "judge": "Judge",
        "judge_model": "Model",
        "engine": "Engine",
        "fingerprint": "Fingerprint",
        "pairs": "Pairs",
        "rounds": "Swiss rounds",
        "judge_options": "Options of the judge",
        "source": "Verdicts",
        "date": "Date",
    }
    made = report["made"]
    facts = [(title, _told(made[name])) for name, title in titles.items() if made.get(name) is not None]
    return [*facts, ("Seed", str(report["options"]["seed"]))]
