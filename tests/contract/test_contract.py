"""What users have in hand does not change by accident: versions of judges, flags of commands, fields of the API, reports.

    UPDATE_CONTRACT=1 python -m pytest tests/contract

writes the files anew. A difference in them is a change that the changelog must tell.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import typer

from judges.catalog import JUDGES
from judges.rubric import Rubric
from magistrate.cli.main import app
from server.app import create_app
from server.hosting.models_file import read_models
from server.judge_spec import JudgeSpec, judge_of
from server.routes.judges import OWN, example_spec
from server.settings import Settings
from server.store import Store

HERE = Path(__file__).parent

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llm-eval": [
        {"scale": "0-100"},
        {"metrics": ["engaging"]},
        {"metrics": {"engaging": "invites an answer"}},
        {"use_reference": True},
    ],
}
"""Options that change a judge's version, beside those of its example."""


def check(name: str, content: Any) -> None:
    """Compare with what is pinned, or pin it."""
    file = HERE / f"{name}.json"
    if os.environ.get("UPDATE_CONTRACT"):
        file.write_text(spelt(content) + "\n")
    assert json.loads(json.dumps(content)) == json.loads(file.read_text()), f"{file.name} says otherwise"


def spelt(content: Mapping[str, Any]) -> str:
    """JSON of which each part of a part stands on a line, so that a difference shows what differs."""
    lines = [
        f'"{name}": {{\n' + ",\n".join(f"  {json.dumps(key)}: {json.dumps(part[key])}" for key in sorted(part)) + "\n}"
        for name, part in sorted(content.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def test_the_version_of_every_judge() -> None:
    versions: dict[str, Any] = {}
    for name in (*JUDGES, OWN):
        base = example_spec(name)
        for options in ({}, *VARIANTS.get(name, ())):
            request = JudgeSpec(**{**base, **({"options": {**base.get("options", {}), **options}} if options else {})})
            judge = judge_of(request)
            prompts = judge.render(JUDGES.get(name, Rubric).example.sample).prompts
            versions[f"{name} {' '.join(options)} {len(versions)}" if options else name] = {
                "version": judge.version,
                "metrics": judge.levels,
                "prompts": len(prompts),
                "answers": [prompt.form.schema for prompt in prompts[:1]],
            }
    check("judges", versions)


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A command and those below it."""
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, f"{path} {name}")
    if not below or command.invoke_without_command:
        yield path, command


def values_of(annotation: Any) -> Any:
    """The values that a flag may have, or their type."""
    name = getattr(annotation, "__name__", str(annotation))
    return [part if isinstance(part, str) else getattr(part, "__name__", str(part)) for part in get_args(annotation)] or name


def test_the_flags_of_every_command() -> None:
    flags = {
        path: {
            " ".join(sorted(parameter.opts + parameter.secondary_opts)): {
                "kind": type(parameter).__name__,
                "values": values_of(parameter.type_descriptor.annotation),
                "bounds": [getattr(parameter, "min", None), getattr(parameter, "max", None)],
                "default": parameter.default
                if isinstance(parameter.default, bool | int | float | None)
                else str(parameter.default),
                "required": parameter.required,
                "multiple": getattr(parameter, "multiple", False) or parameter.nargs != 1,
            }
            for parameter in command.params
        }
        for path, command in commands(typer.main.get_command(app), "magistrate")
    }
    check("commands", flags)


def without_prose(value: Any) -> Any:
    """A part of a JSON schema or of an API's description, without the sentences, titles and examples that say what it means."""
    if isinstance(value, list):
        return [without_prose(part) for part in value]
    if not isinstance(value, dict):
        return value
    prose = {name for name in ("description", "summary", "title", "tags", "version") if isinstance(value.get(name), str | list)}
    prose |= {"examples", "example", "operationId"} & value.keys()
    return {name: without_prose(part) for name, part in value.items() if name not in prose}


def test_the_fields_of_the_api(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'magistrate.db'}")
    try:
        api = create_app(Settings(), read_models("cpu"), store)
        described = without_prose(api.openapi())
        check("api", {"paths": described["paths"], "schemas": described["components"]["schemas"]})
    finally:
        store.close()
