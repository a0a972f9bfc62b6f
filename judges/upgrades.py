"""Which fingerprints a version of Magistrate changed, and why: what a file made by an earlier version is refused for.

``CHANGELOG.md`` says the same in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judges.judge import Judge


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A change of fingerprints.

    Attributes:
        version: The first version that has it.
        field: The field of a fingerprint that is new, or has another value; dots lead into nested ones.
        why: What changed, as a clause.
        judge: The judge whose fingerprints changed; any if ``None``.
        before: Options with which the judge is what it was before.
    """

    version: str
    field: str
    why: str
    judge: str | None = None
    before: Mapping[str, object] | None = None

    def explains(self, theirs: object, judge: Judge | None) -> bool:
        """Whether a file of an earlier version has this value of the field, and so nothing else changed it.

        Args:
            theirs: The value in the file; ``None`` if it has none.
            judge: The judge of this run.
        """
        if self.judge is None or self.before is None:
            return theirs is None
        if judge is None or judge.name != self.judge:
            return False
        return type(judge)(**{**judge.options.model_dump(), **self.before}).version == theirs


UPGRADES = (
    Upgrade("0.1.0", "identity.options.spelling", "answers are constrained by the bytes of the tokenizer's own tokens"),
    Upgrade("0.1.0", "identity.options.rendering", "models that think are asked in their own form"),
    Upgrade(
        "0.1.0",
        "judge_version",
        "with `per_metric` the words are those of the authors' package `grouse`",
        "grouse",
        {"prompts": "card"},
    ),
)
"""All changes that a file shows, the earliest version's first."""


def explained(differing: Mapping[str, object], judge: Judge | None) -> list[Upgrade]:
    """The changes that explain why a file of an earlier version differs; none if any difference has another cause.

    Args:
        differing: Field of a fingerprint to its value in the file.
        judge: The judge of this run.
    """
    found = [
        next((one for one in UPGRADES if one.field == field and one.explains(theirs, judge)), None)
        for field, theirs in differing.items()
    ]
    return [one for one in found if one is not None] if None not in found else []
