"""The folder that units are judged to: what it is of, which units are done, and their tally."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from judges.errors import MagistrateError, counted
from judges.summary import Summary
from judges.units.stores import Store
from judges.units.tables import Facts, read_facts
from judges.units.units import AT_ONCE, VERDICTS, Unit
from judges.verdict import Fingerprint
from judges.verdict_lines import MANIFEST

AGAIN = "remove it, and the same `magistrate score` writes it again"

FIRST = 3
"""Units to name in a message."""


@dataclass(frozen=True, slots=True)
class Run:
    """What all files of a folder have in common. Written by whichever process begins; the others compare theirs.

    Attributes:
        size: Bytes of a unit.
        columns: Field of a sample to the column that holds it, if the names differ.
        fingerprint: Everything that verdicts depend on besides their samples.
        units: How many units the input has: those of the latest run, as files may be added or mended.
    """

    size: int
    columns: Mapping[str, str]
    fingerprint: Mapping[str, Any]
    units: int


def begin(target: Store, run: Run) -> None:
    """Write what a folder is of, or see that it is of the same.

    Raises:
        MagistrateError: It is of another judge, model or setting; the message says what differs.
    """
    ours = json.loads(json.dumps(asdict(run)))
    content = (json.dumps(ours, indent=2) + "\n").encode()
    if target.read(MANIFEST) is None:
        target.write_first(MANIFEST, content)
    theirs = _manifest(target)  # another process may have begun at the same moment
    here, there = _flat(ours), _flat(theirs)
    differing = [name for name in here | there if here.get(name) != there.get(name) and name != "units"]
    if differing:
        said = ", ".join(f"{name} {there.get(name)} there, {here.get(name)} here" for name in differing[:FIRST])
        more = f", and {len(differing) - FIRST} more" if len(differing) > FIRST else ""
        raise MagistrateError(f"{target.place('')} holds verdicts of another run ({said}{more}); give `-o` another folder")
    if ours != theirs:
        target.write(MANIFEST, content)


def read_run(target: Store) -> Run:
    """Read what a folder is of.

    Raises:
        MagistrateError: It holds no verdicts of units.
    """
    content = _manifest(target)
    try:
        return Run(**content)
    except TypeError:
        raise MagistrateError(f"{target.place(MANIFEST)} is not of this version; give another folder") from None


def _manifest(target: Store) -> dict[str, Any]:
    text = None if target.system.isfile(target.root) else target.read(MANIFEST)
    if text is None:
        raise MagistrateError(f"{target.place('')} holds no {MANIFEST}, so no verdicts of `magistrate score -o FOLDER/`")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise MagistrateError(f"{target.place(MANIFEST)} cannot be read: {error}; {AGAIN}") from None
    if not isinstance(content, dict):
        raise MagistrateError(f"{target.place(MANIFEST)} cannot be read: it is no object; {AGAIN}")
    return content


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in content.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


@dataclass(slots=True)
class State:
    """What a folder holds.

    Attributes:
        done: Name of each complete file of verdicts to what it says of itself.
    """

    done: dict[str, Facts] = field(default_factory=dict)

    @property
    def again(self) -> int:
        """Verdicts that say nothing of their sample, which the same command reaches again."""
        return sum(facts.repeated for facts in self.done.values())

    @property
    def summary(self) -> Summary:
        """A tally of all verdicts."""
        total = Summary()
        for facts in self.done.values():
            total.merge(facts.summary)
        return total


def state_of(target: Store) -> State:
    """Read what each file of verdicts says of itself. No verdict is read.

    Raises:
        MagistrateError: A file is no file of verdicts.
    """
    names = target.whole(VERDICTS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return State(dict(zip(names, pool.map(lambda name: read_facts(target, name), names), strict=True)))


def check_input(target: Store, state: State, units: Sequence[Unit]) -> None:
    """See that a folder holds verdicts of these units alone.

    Raises:
        MagistrateError: It holds others; the message names some.
    """
    known = {unit.name for unit in units}
    others = [name.removesuffix(VERDICTS) for name in state.done if name not in known]
    if others:
        named = ", ".join(others[:FIRST])
        raise MagistrateError(
            f"{target.place('')} holds verdicts of {counted(len(others), 'unit')} that the input does not have, such as {named}; "
            "give `-o` another folder"
        )


def share(units: Sequence[Unit], part: int, parts: int) -> Iterator[Unit]:
    """Every unit whose number is ``part`` modulo ``parts``; ``part`` counts from 1."""
    return (unit for number, unit in enumerate(units) if number % parts == part - 1)


def fingerprint_fields(fingerprint: Fingerprint) -> dict[str, Any]:
    """A fingerprint as a run keeps it."""
    return {"digest": fingerprint.digest, **fingerprint.fields()}
