"""The arena from Python: verdicts from anywhere or a tournament, and the report, as ``magistrate arena`` makes them."""

from judges.extras import naming_extras

with naming_extras():
    from evals.arena.battles import Battles
    from evals.arena.rating import Options
    from evals.arena.report import write
    from evals.arena.sources import Beside, gather
    from evals.arena.study import report
    from evals.arena.tournament import Tournament, play
    from evals.data.answers import read_answers
    from evals.data.questions import read_questions

__all__ = [
    "Battles",
    "Beside",
    "Options",
    "Tournament",
    "gather",
    "play",
    "read_answers",
    "read_questions",
    "report",
    "write",
]
