"""Attribute assignment, solved exactly: which k attributes each instance has, so that counts follow priors and affinity is highest."""

from solver.assignment import Assignment, assign
from solver.errors import InfeasibleError, SolverError

__all__ = ["Assignment", "InfeasibleError", "SolverError", "assign"]
