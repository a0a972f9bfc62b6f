"""Untrusted Python programs, run where they can do no harm."""

from evals.sandbox.limits import Limits
from evals.sandbox.sandbox import Outcome, Sandbox, Status

__all__ = ["Limits", "Outcome", "Sandbox", "Status"]
