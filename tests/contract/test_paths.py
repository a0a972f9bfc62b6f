"""Modules that are named in texts are where the texts say: nothing else notices when one moves."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import pairwise
from pkgutil import resolve_name

import pytest

from judges.catalog import GROUP
from scripts.figures import PACKAGES, ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOTTED = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+\.?")
"""What names a module of ours, or the begin of a name that is filled in."""

LOGGER = "logging.getLogger"


def texts(source: ast.AST) -> Iterator[str]:
    """The texts of a module, without names of loggers."""
    for node in ast.iter_child_nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not (isinstance(node, ast.Call) and ast.unparse(node.func) == LOGGER):
            yield from texts(node)


def parsed(module: str) -> ast.Module:
    return ast.parse(modules(*PACKAGES)[module].read_text())


def dotted_texts() -> list[tuple[str, str]]:
    found = ((name, text) for name, file in modules(*PACKAGES).items() for text in texts(ast.parse(file.read_text())))
    """Texts that read like a module of ours, but for the group of entry points."""
    return sorted({(name, text) for name, text in found if DOTTED.fullmatch(text) and text != GROUP})


def after(flag: str) -> list[str]:
    """What follows a flag in a list of arguments, anywhere."""
    lists = [
        [part.value if isinstance(part, ast.Constant) else None for part in node.elts]
        for file in modules(*PACKAGES).values()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.List | ast.Tuple)
    ]
    found = [following for parts in lists for one, following in pairwise(parts) if one == flag]
    return [one for one in found if isinstance(one, str) and one != "pip"]


@pytest.mark.parametrize(("module", "text"), dotted_texts())
def test_a_text_that_names_a_module_names_one_that_there_is(module: str, text: str) -> None:
    assert text.rstrip(".") in modules(*PACKAGES) or resolve_name(text), module


def test_the_texts_are_found() -> None:
    """Also inside of a text that is put together, and beside the flag."""
    assert len([text for _, text in dotted_texts() if text.endswith(".")]) == 1
    assert set(after("-m")) <= {text for _, text in dotted_texts()}
    assert len(set(after("-m"))) == 3


@pytest.mark.parametrize("name", sorted(set(after("-m"))))
def test_a_module_that_is_run_runs_something(name: str) -> None:
    assert 'if __name__ == "__main__":' in modules(*PACKAGES)[name].read_text()


def test_vllms_schedulers_are_there() -> None:
    (namer, prefix) = next((module, text) for module, text in dotted_texts() if text.endswith("vllm.scheduler."))
    named = {text for text in texts(parsed(namer)) if re.fullmatch(r"\w+Scheduler", text)}
    assert len(named) == 2, "with async scheduling and without"
    assert named <= {node.name for node in parsed(prefix.rstrip(".")).body if isinstance(node, ast.ClassDef)}


def entry_points() -> list[str]:
    groups: dict[str, dict[str, str]] = PROJECT["project"]["entry-points"] | {"console": PROJECT["project"]["scripts"]}
    return [target for group in groups.values() for target in group.values()]


@pytest.mark.parametrize("target", entry_points())
def test_an_entry_point_is_there(target: str) -> None:
    assert target in modules(*PACKAGES) or callable(resolve_name(target))  # a module may need a tool that is not installed


def test_vllm_finds_its_plugin_and_users_their_command() -> None:
    assert PROJECT["project"]["entry-points"]["vllm.general_plugins"].keys() == {"magistrate"}
    assert PROJECT["project"]["scripts"].keys() == {"magistrate"}


@pytest.mark.parametrize("package", PACKAGES)
def test_files_beside_the_modules_are_packed(package: str) -> None:
    data: dict[str, list[str]] = PROJECT["tool"]["setuptools"]["package-data"]
    packed = [*data.get("*", ()), *data.get(package, ())]
    folder = ROOT / package
    others = [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and file.suffix != ".py" and file.parent.name != "__pycache__"
    ]
    assert [file for file in others if not any(fits(file, pattern) for pattern in packed)] == []
    assert [pattern for pattern in packed if not any(folder.glob(pattern))] == []


def fits(file: str, pattern: str) -> bool:
    """Whether a pattern of setuptools takes a file, part by part."""
    parts, wanted = file.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch, parts, wanted))
