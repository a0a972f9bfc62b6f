"""Folders import the ones below them, never the ones above, and no imports go in a circle."""

from __future__ import annotations

import ast

import pytest

from scripts.figures import PACKAGES, circles, import_graph, imported

BELOW = {
    "magistrate": {"server", "finetune", "evals", "judges", "solver"},
    "server": {"evals", "judges", "solver"},
    "finetune": {"evals", "judges", "solver"},
    "evals": {"judges", "solver"},
    "judges": set(),
    "solver": set(),
}
"""What each folder may import, beside itself."""


def folder(module: str) -> str:
    return module.partition(".")[0]


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return import_graph()


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_point_down(graph: dict[str, set[str]], package: str) -> None:
    up = {
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in targets
        if folder(module) == package and folder(target) not in {package} | BELOW[package]
    }
    assert not up


def test_no_imports_go_in_a_circle(graph: dict[str, set[str]]) -> None:
    assert {folder(module) for module in graph if graph[module]} == set(PACKAGES), "all folders are looked at"
    assert circles(graph) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) in ([[*start, start[0]]] for start in ("abc", "bca", "cab"))


def test_imports_count_wherever_they_run() -> None:
    source = """
from typing import TYPE_CHECKING
from solver import tools
if TYPE_CHECKING:
    from judges import judge
def late():
    import evals.data.answer_file as digest
    from judges.errors import MagistrateError
"""
    known = dict.fromkeys(("solver", "judges.judge", "evals.data.answer_file", "judges.errors"))
    assert imported(ast.parse(source), known) == {"solver", "evals.data.answer_file", "judges.errors"}
