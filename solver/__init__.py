"""Exact attribute assignment: k attributes for each instance, counts by the priors, the highest affinity."""

from solver.assignment import Assignment, assign
from solver.problem import InfeasibleError, SolverError

__all__ = ["Assignment", "InfeasibleError", "SolverError", "assign"]
