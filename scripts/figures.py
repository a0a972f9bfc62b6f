"""Prints how large and how tangled the code is: lines, parameters, small modules, circles of imports.

    .venv/bin/python scripts/figures.py [--list]

``--list`` names what is counted. The figures are of the source alone; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("magistrate", "server", "finetune", "evals", "judges", "solver")
MOST_PARAMETERS = 8
SMALL = 60
"""Lines below which a module is small."""

SETTING = "think"
"""The setting whose declarations are counted."""


def modules(*packages: str) -> dict[str, Path]:
    """The modules of packages, by dotted name."""
    files = sorted(file for name in packages for file in (ROOT / name).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imported(source: ast.Module, known: Mapping[str, object]) -> set[str]:
    """The known modules that a module imports when it runs, inside of functions too."""
    found: set[str] = set()
    for node in _running(source):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name whole modules"
            whole = {name: f"{node.module}.{name}" for name in names}
            names = [part if part in known else str(node.module) for part in whole.values()]
        found.update(name for name in names if name in known)
    return found


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, without those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        yield child
        yield from _running(child)


def import_graph() -> dict[str, set[str]]:
    """Each module of the packages, and which of them it imports."""
    known = modules(*PACKAGES)
    return {name: imported(ast.parse(file.read_text()), known) - {name} for name, file in known.items()}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Circles of imports, each as modules of which each imports the next; taking out the first import of each leaves none."""
    left = {name: set(targets) for name, targets in graph.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
            return found
        except CycleError as error:
            circle: list[str] = error.args[1][::-1]
            found.append(circle)
            left[circle[0]].discard(circle[1])


def _long_signatures(name: str, source: ast.Module) -> Iterator[str]:
    for node in ast.walk(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            count = len([one for one in given if one not in ("self", "cls")])
            if count > MOST_PARAMETERS:
                yield f"{name}:{node.lineno} {node.name} ({count})"


def _names_setting(source: ast.Module) -> bool:
    """Whether a module names the setting, as a variable, a parameter, a field or a key."""
    said = {getattr(node, part, None) for node in ast.walk(source) for part in ("id", "arg", "attr", "value", "name")}
    return SETTING in {one for one in said if isinstance(one, str)}


def figures() -> Iterator[tuple[str, int, list[str]]]:
    """What is counted, how many, and which."""
    files = modules(*PACKAGES)
    lines = {name: len(file.read_text().splitlines()) for name, file in files.items()}
    sources = {name: ast.parse(file.read_text()) for name, file in files.items()}
    for package in PACKAGES:
        yield f"lines of {package}", sum(lines[name] for name in modules(package)), []
    yield f"lines of {' '.join(PACKAGES)}", sum(lines.values()), []
    yield "lines of evals/meta", sum(lines[name] for name in modules("evals/meta")), []
    yield "modules", len(files), []
    wide = [one for name, source in sources.items() for one in _long_signatures(name, source)]
    yield f"functions with more than {MOST_PARAMETERS} parameters", len(wide), wide
    setting = [name for name, source in sources.items() if _names_setting(source)]
    yield f"modules that name `{SETTING}`", len(setting), setting
    small = [name for name, count in lines.items() if count < SMALL and sources[name].body]
    yield f"modules under {SMALL} lines", len(small), small
    tangled = [" -> ".join(circle) for circle in circles(import_graph())]
    yield "circles of imports", len(tangled), tangled


if __name__ == "__main__":
    for what, count, which in figures():
        print(f"{count:>8,}  {what}")
        if "--list" in sys.argv:
            print("".join(f"{'':>10}{one}\n" for one in which), end="")
