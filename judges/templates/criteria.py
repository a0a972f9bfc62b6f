"""The criteria that a template's judge judges by: the metrics of a rubric, or a rubric of the authors'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import SkipJsonSchema

from judges.data.files import check_file
from judges.data.located import MOST_BYTES, SUFFIXES
from judges.errors import MagistrateError, did_you_mean, reason_of
from judges.options import Spelling, Writable
from judges.rubric import read_metrics
from judges.rubric_file import Metric
from judges.text_form import Legal


class Criterion(BaseModel):
    """What a score is for.

    Attributes:
        name: Name of the metric.
        description: Its description.
        levels: Score, spelt as text, to its meaning.
        whole: The authors' rubric, in place of a description and levels.
        legal: The scores; empty if the template's answer says.
    """

    model_config = ConfigDict(frozen=True)

    name: str = "score"
    description: str = ""
    levels: Mapping[str, str] = {}
    whole: str = ""
    legal: Legal = ()

    @classmethod
    def of(cls, metric: Metric) -> Criterion:
        """The criterion that a metric of a rubric describes."""
        levels = {str(score): metric.levels[str(score)] for score in metric.legal if str(score) in metric.levels}
        return cls(name=metric.name, description=metric.description, levels=levels, legal=metric.legal)


def read_criteria(
    judge: str, given: str | None, ready: Mapping[str, str], scale: Legal | None, levels: Sequence[str] | None
) -> Sequence[Criterion]:
    """Read the criteria that a user asks for.

    Args:
        judge: The judge's name, for messages.
        given: The text of a rubric in TOML or YAML, the name of a rubric in ``ready``, or ``None`` for the first of these.
        ready: Rubrics of the authors by name.
        scale: The judge's scores; empty if the criterion says, and ``None`` for a judge that compares.
        levels: The levels that the prompt describes; ``None`` for all of the criterion's.

    Raises:
        MagistrateError: There is no such rubric, it is invalid, or it does not have the judge's scale and levels.
    """
    if given is None and not ready:
        raise MagistrateError(f"judge `{judge}` needs the option `criteria`: the text of a rubric")
    if given is None or not ("=" in given or ":" in given):  # a name has neither
        name = given if given is not None else next(iter(ready))
        if name not in ready:
            known = (
                f"; there {'are' if len(ready) > 1 else 'is'} {', '.join(ready)}, and files in .toml or .yaml" if ready else ""
            )
            raise MagistrateError(f"judge `{judge}` has no criteria `{name}`{known}{did_you_mean(name, list(ready))}")
        return [Criterion(name=name, whole=ready[name])]
    criteria = [Criterion.of(metric) for metric in read_metrics(given)]
    if scale is None and len(criteria) > 1:
        raise MagistrateError(f"judge `{judge}` compares by one criterion, and the rubric has {len(criteria)}; keep one")
    for criterion in criteria:
        _check(judge, criterion, scale, levels)
    return criteria


def _check(judge: str, criterion: Criterion, scale: Legal | None, levels: Sequence[str] | None) -> None:
    if scale and criterion.legal != scale:
        words = f'"{scale[0]}-{scale[-1]}"' if isinstance(scale[0], int) else str(list(scale)).replace("'", '"')
        raise MagistrateError(f"metric `{criterion.name}` needs `scale = {words}`, which judge `{judge}` was trained to use")
    wanted = map(str, criterion.legal) if levels is None else levels
    missing = [level for level in wanted if level not in criterion.levels]
    if missing:
        raise MagistrateError(
            f"metric `{criterion.name}` does not describe its level{'s' * (len(missing) > 1)} {', '.join(missing)}, "
            f"which the prompt of judge `{judge}` shows: add `levels`"
        )


def _spelt(text: str) -> str:
    """Read the file that is named, or keep the name of one of the authors' rubrics."""
    path = Path(text)
    if path.suffix.lower() not in SUFFIXES:
        return text
    try:
        check_file(path)
        content = path.read_bytes()[: MOST_BYTES + 1].decode("utf-8-sig")
    except (MagistrateError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"must be a rubric; {text} cannot be read ({reason_of(error)})") from None
    return content


CRITERIA = Annotated[Writable, Spelling("FILE", _spelt, "a rubric, .toml or .yaml", file=True)]
OR_READY = Annotated[
    Writable | SkipJsonSchema[None],
    Spelling("FILE", _spelt, "a rubric, .toml or .yaml, or the name of one of the authors'", file=True),
]
"""Criteria, or a rubric of the authors: the first if none is named."""
