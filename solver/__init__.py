"""Attribute assignment, exact: k attributes for each instance, counts as the priors say, the highest affinity."""

from solver.assignment import Assignment, assign
from solver.errors import InfeasibleError, SolverError

__all__ = ["Assignment", "InfeasibleError", "SolverError", "assign"]
