"""What people see of a study: a page in one file, pictures of its charts, and a text. All of it comes from ``report.json``."""

from evals.dashboard.report import write

__all__ = ["write"]
