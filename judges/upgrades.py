"""Which fingerprints a version of Magistrate changed, and why: what a file made by an earlier version is refused for.

``CHANGELOG.md`` says the same in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A change of fingerprints.

    Attributes:
        version: The first version that has it.
        field: The field of a fingerprint that is new, or has another value; dots lead into nested ones.
        why: What changed, as a clause.
        judge: The judge whose fingerprints changed; any if ``None``.
        option: The option with which they did; all of the judge's if ``None``.
    """

    version: str
    field: str
    why: str
    judge: str | None = None
    option: str | None = None

    def concerns(self, judge: str, options: Mapping[str, object]) -> bool:
        """Whether it changed the fingerprints of a judge with these options."""
        return self.judge in (None, judge) and (self.option is None or bool(options.get(self.option)))


UPGRADES = (
    Upgrade("0.1.0", "identity.options.spelling", "answers are constrained by the bytes of the tokenizer's own tokens"),
    Upgrade("0.1.0", "identity.options.rendering", "models that think are asked in their own form"),
    Upgrade("0.1.0", "identity.options.gpu", "a verdict made on a GPU names its kind"),
    Upgrade("0.1.0", "identity.options.model_runner", "a verdict made on a GPU names vLLM's runner"),
    Upgrade(
        "0.1.0", "judge_version", "with `per_metric` the words are those of the authors' package `grouse`", "grouse", "per_metric"
    ),
)
"""All changes, the earliest version's first."""


def upgrade_of(field: str, theirs: object, judge: str, options: Mapping[str, object]) -> Upgrade | None:
    """The change that may explain why a field differs in a file of an earlier version; ``None`` if no version changed it.

    Args:
        field: The field of a fingerprint.
        theirs: Its value in the file; ``None`` if the file's version did not have it.
        judge: The judge's name.
        options: The judge's options in this run.
    """
    is_new = theirs is None or field == "judge_version"
    changes = (one for one in reversed(UPGRADES) if one.field == field and is_new and one.concerns(judge, options))
    return next(changes, None)
