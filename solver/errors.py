"""What can go wrong before an assignment is reached."""

from __future__ import annotations


class SolverError(ValueError):
    """The input cannot be an assignment problem; the message says what to mend."""


class InfeasibleError(SolverError):
    """No assignment keeps every constraint.

    Attributes:
        slack: The smallest slack under which there is one, or None when no slack helps.
    """

    def __init__(self, message: str, slack: float | None = None) -> None:
        super().__init__(message)
        self.slack = slack
