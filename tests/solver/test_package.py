from __future__ import annotations

import ast
import subprocess
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


def test_it_works_where_compiled_kernels_cannot_be_kept() -> None:
    # Code that comes from no file has no place beside it either.
    program = """
from solver.compiled import compiled

@compiled
def double(value):
    return 2 * value

print(double(21), double.stats.cache_path)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["42", "None"], done.stderr
