"""What a program can import: public names alone, at once, typed, and all of them in the guide."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import magistrate
from scripts.figures import PACKAGES

ROOT = Path(__file__).parents[2]
STUDIES = ("arena", "finetune", "meta", "qualeval")
GUIDE = (ROOT / "docs" / "python.md").read_text()


def test_names_are_public_and_there() -> None:
    names = dir(magistrate)
    assert names == sorted(set(names))
    assert not [name for name in names if name.startswith("_")]
    for name in names:
        found = getattr(magistrate, name)
        assert getattr(found, "__name__", name).rpartition(".")[2] == name
    assert {*magistrate.__all__} | {*STUDIES, "assign"} == {*names}
    assert dir(magistrate) == names, "what has been used does not show"
    with pytest.raises(AttributeError, match="`magistrate` has no attribute `nothing`"):
        _ = magistrate.nothing


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse(Path(magistrate.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    read = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    homes = {name: f"magistrate.{name}" if home == "magistrate" else home for name, home in read.items()}
    assert homes == magistrate._HOMES


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert '"*" = ["py.typed"]' in (ROOT / "pyproject.toml").read_text()


def test_the_import_loads_nothing_else() -> None:
    program = "import sys; before = {*sys.modules}; import magistrate; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert [name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names] == ["magistrate"]


def test_the_guide_has_every_name() -> None:
    lacking = [name for name in dir(magistrate) if f"`{name}" not in GUIDE]
    for study in STUDIES:
        module = importlib.import_module(f"magistrate.{study}")
        lacking += [f"{study}.{name}" for name in module.__all__ if f"`{name}" not in GUIDE]
    assert not lacking


def test_the_guides_settings_are_those_that_there_are() -> None:
    from magistrate.judging import SETTINGS

    assert [name for name in SETTINGS if f"`{name}`" not in GUIDE] == []
