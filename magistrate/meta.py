"""Studies of judges from Python, as ``magistrate estimate``, ``magistrate meta`` and ``magistrate judges card`` make them."""

from judges.extras import naming_extras

with naming_extras():
    from evals.data.compared_answers import read_compared
    from evals.data.rated_samples import read_rated
    from evals.data.verdicts import read_verdicts
    from evals.meta.benchmarks.decisions import asked
    from evals.meta.benchmarks.files import read_benchmark
    from evals.meta.benchmarks.study import Options as BenchmarkOptions
    from evals.meta.benchmarks.study import study as benchmark
    from evals.meta.card.card import Made, make_card
    from evals.meta.card.runs import Plan, judge_all, plan_runs
    from evals.meta.card.subject import Subject
    from evals.meta.checks.audit import Options as AuditOptions
    from evals.meta.checks.audit import audit
    from evals.meta.checks.compare import Options as CompareOptions
    from evals.meta.checks.compare import compare
    from evals.meta.checks.replace import Options as ReplaceOptions
    from evals.meta.checks.replace import replace
    from evals.meta.estimate import Options as EstimateOptions
    from evals.meta.estimate import estimate
    from evals.meta.grounded.cases import read_cases
    from evals.meta.grounded.study import study as grouse
    from evals.meta.people.preferences import study as preferences
    from evals.meta.people.rater_choices import Options as PreferencesOptions
    from evals.meta.people.study import Options as PeopleOptions
    from evals.meta.people.study import study as people

__all__ = [
    "AuditOptions",
    "BenchmarkOptions",
    "CompareOptions",
    "EstimateOptions",
    "Made",
    "PeopleOptions",
    "Plan",
    "PreferencesOptions",
    "ReplaceOptions",
    "Subject",
    "asked",
    "audit",
    "benchmark",
    "compare",
    "estimate",
    "grouse",
    "judge_all",
    "make_card",
    "people",
    "plan_runs",
    "preferences",
    "read_benchmark",
    "read_cases",
    "read_compared",
    "read_rated",
    "read_verdicts",
    "replace",
]
