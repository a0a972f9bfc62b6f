from __future__ import annotations

import ast
import sys
from pathlib import Path

import solver

FOLDER = Path(solver.__file__).parent


def test_the_solver_stands_on_its_own() -> None:
    allowed = {"numpy", "numba", "highspy", "solver"} | sys.stdlib_module_names
    for module in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert {name.partition(".")[0] for name in names} <= allowed, module.name
