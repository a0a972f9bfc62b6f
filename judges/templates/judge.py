"""Judges that ask and answer in their authors' own words, as a template file says."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from pydantic import Field

from judges.data.samples import spelt_tags, turns_field
from judges.errors import MagistrateError
from judges.examples import ANSWERED, COMPARED
from judges.judge import (
    Fields,
    Judge,
    JudgeExample,
    Label,
    MeasurementLevel,
    Message,
    NumericScore,
    ParsedAnswer,
    Prompt,
    RenderedPrompts,
    Sample,
    Score,
)
from judges.options import JudgeOptions
from judges.orders import AGREE, CHOICES, PREFERENCE, TIE, Disagreement, Orders, preferred, swapped_back
from judges.pairwise import Pairwise
from judges.templates.criteria import CRITERIA, OR_READY, Criterion, read_criteria
from judges.templates.cutting import Words, parsed
from judges.templates.faults import place_faults
from judges.templates.file import CRITERION, RUBRIC, PromptSpec, TemplateFile
from judges.text_form import Legal, Part, TextForm

ANSWER, ANSWER_A, ANSWER_B, QUESTION = "answer", "answer_a", "answer_b", "question"
ORDERS = (("score_a", "score_b"), ("score_b_swapped", "score_a_swapped"))
"""The metrics of the answer shown first and of the other one, with A first and with B first."""

LONG_WORDS = 4
"""Characters of fixed words of an answer, from which on a sample that holds them is noted."""

EXAMPLES = ANSWERED | COMPARED
"""A sample of every judge that reads these fields; of another field the example says that it stands there."""


EXAMPLE_LEVELS = ("one cannot", "in part", "wholly")

WHAT_TO_JUDGE_BY = "What to judge by: a rubric of yours with the judge's scale."
OR_THEIRS = "What to judge by: a rubric of yours with the judge's scale, or the name of one of the authors'."


class RatingOptions(JudgeOptions):
    criteria: OR_READY = Field(None, description=OR_THEIRS)


class RatingNeedsCriteria(JudgeOptions):
    criteria: CRITERIA = Field(description=WHAT_TO_JUDGE_BY)


class CompareOptions(JudgeOptions):
    orders: Orders = Field("both", description="`both` orders, A first and B first, or as the sample has them (`given`).")
    disagreement: Disagreement = Field("tie", description="Preference if the orders disagree; `given` takes that order's choice.")


class CompareByCriterion(CompareOptions):
    criteria: OR_READY = Field(None, description=OR_THEIRS)


class CompareNeedsCriteria(CompareOptions):
    criteria: CRITERIA = Field(description=WHAT_TO_JUDGE_BY)


class TemplateJudge(Judge):
    """Scores an answer, or compares two, in the words and the form of a template file.

    A judge of single answers scores a metric for each criterion, or ``score``. A judge of pairs gives ``preference`` and
    ``orders_agree`` as ``Pairwise`` does; one that scores both answers gives these scores too, those of the second order with
    ``_swapped`` behind their names.

    Attributes:
        file: The template file.

    Raises:
        MagistrateError: A source of the template is not on this machine, a text cannot be cut out of it, or the criterion does
            not have the judge's scale.
    """

    file: TemplateFile

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._form = self.file.form
        self._words = _cut(self.file)
        self._criteria = self._opened_criteria()

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.file, self.options.model_dump(exclude_unset=True))

    def protocol(self) -> Mapping[str, Any]:
        content = self.file.model_dump(mode="json", exclude={"summary", "article", "sources"}, exclude_defaults=True)
        return {"template": content, "words": {name: _spelt(words) for name, words in self._words.items()}, **self._asked_for}

    @property
    def _asked_for(self) -> Mapping[str, Any]:
        criteria = [criterion.model_dump(exclude_defaults=True) for criterion in self._criteria]
        return {**self.options.model_dump(include={"orders", "disagreement"}), "criteria": criteria}

    def _opened_criteria(self) -> Sequence[Criterion]:
        """What to judge by; one nameless criterion where the template has its own."""
        if not self.file.takes_criterion:
            return [Criterion()]
        given = getattr(self.options, "criteria", None)
        ready = {name: _text_of(self._words[_ready(name)]) for name in self.file.ready}
        scale = None if self._score_part is None else self._score_part.legal
        criteria = read_criteria(self.name, given, ready, scale, self.file.levels)
        parts = [part.name for part in self._form.parts if part.name != self.file.score]
        for name in [criterion.name for criterion in criteria if criterion.name in parts]:
            raise MagistrateError(f"metric `{name}` has the name of a part of judge `{self.name}`'s answer; give it another")
        return criteria

    @property
    def _score_part(self) -> Part | None:
        return next((part for part in self._form.parts if part.name == self.file.score), None)

    # What it reads and gives

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        metrics: dict[str, MeasurementLevel] = {}
        if self.file.compare:
            metrics = dict.fromkeys((PREFERENCE, AGREE) if self._both else (PREFERENCE,), "nominal")
        for metric, legal in self._scored.items():
            metrics[metric] = "ordinal" if isinstance(legal[0], int) else "nominal"
        return metrics

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        legal: dict[str, Collection[Score]] = dict(self._scored)
        if compare := self.file.compare:
            meant = ("A", "both", "B") if compare.choice is None else compare.meanings.values()
            legal |= {PREFERENCE: (*(choice for choice in CHOICES if choice in meant), TIE), AGREE: (0, 1)}
        return {metric: legal[metric] for metric in self.levels}

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [
            NumericScore(metric, (metric,), tuple(int(value) for value in legal))
            for metric, legal in self._scored.items()
            if isinstance(legal[0], int)
        ]

    @property
    def labels(self) -> Sequence[Label | None]:
        names = [criterion.name for criterion in self._criteria]
        if self.file.compare is not None:
            names = [self.file.compare.choice or ""] * len(self.forms)
        found = [[part for part in form.parts if part.name == name] for form, name in zip(self.forms, names, strict=True)]
        return [
            None if not parts or parts[0].is_number else Label((parts[0].name,), tuple(map(str, parts[0].legal)))
            for parts in found
        ]

    @property
    def _both(self) -> bool:
        return self.file.compare is not None and cast(CompareOptions, self.options).orders == "both"

    @cached_property
    def _scored(self) -> Mapping[str, Legal]:
        """Each metric that is read from a part of an answer, to its legal values; a choice is no such metric."""
        compare = self.file.compare
        if compare is None:
            names = [criterion.name for criterion in self._criteria]
        else:
            names = [] if compare.choice else [name for order in ORDERS[: 1 + self._both] for name in order]
        legal = {part.name: part.legal for form in self.forms for part in form.parts}
        return {name: legal[name] for name in names}

    # Asking

    def render(self, sample: Sample) -> RenderedPrompts:
        texts = self._read_fields(sample)
        spec = next(spec for spec in self.file.prompts if all(name in texts for name in spec.when))
        shown = [texts, *([{**texts, ANSWER_A: texts[ANSWER_B], ANSWER_B: texts[ANSWER_A]}] if self._both else [])]
        prompts = tuple(
            self._prompt(spec, each, criterion, form)
            for criterion, forms in zip(self._criteria, self._forms, strict=True)
            for each, form in zip(shown, forms, strict=True)
        )
        tags = [words for piece in self._form.pieces if isinstance(piece, str) and len(words := piece.strip()) >= LONG_WORDS]
        return RenderedPrompts(prompts, tuple(spelt_tags(texts, tags)))

    @cached_property
    def _forms(self) -> Sequence[Sequence[TextForm]]:
        """The form of the answer to each prompt, by criterion and order. The part of a score has the name of its metric."""
        compare = self.file.compare
        if compare is None:
            return [[self._form_of(criterion)] for criterion in self._criteria]
        if compare.choice is not None:
            return [[self._form] * (1 + self._both)]
        orders = ORDERS[: 1 + self._both]
        return [[self._form.changed({compare.first: first, compare.second: second}) for first, second in orders]]

    def _form_of(self, criterion: Criterion) -> TextForm:
        part = self._score_part
        assert part is not None
        return self._form.changed({part.name: criterion.name}, {part.name: part.legal or criterion.legal})

    @property
    def forms(self) -> Sequence[TextForm]:
        return [form for forms in self._forms for form in forms]

    def _read_fields(self, sample: Sample) -> dict[str, str]:
        """The fields that the prompts read, by name; an optional one that is empty counts as absent.

        Raises:
            SampleError: A needed field is missing, or one cannot be read.
        """
        texts = {name: turns_field(sample, name) for name in self.fields.needed}
        for name in self.fields.optional:
            if sample.get(name) not in (None, "", []):
                texts[name] = turns_field(sample, name)
        return texts

    def _prompt(self, spec: PromptSpec, texts: Mapping[str, str], criterion: Criterion, form: TextForm) -> Prompt:
        filler = _Filler(self.file, {**self.file.values, **spec.values}, self._words, texts, criterion)
        messages = tuple(
            Message(role, filler.filled(parsed(text, "format", ())), tuple(texts.values())) for role, text in spec.messages
        )
        return Prompt(messages, form, plain=spec.plain is not None, answer_start=spec.answer_start)

    # Reading

    def read(self, *answers: str) -> ParsedAnswer:
        forms = self.forms
        parts = [form.read(answer) for form, answer in zip(forms, answers, strict=True)]
        reasons = [str(each[self.file.justification]) for each in parts] if self.file.justification else []
        if self.file.compare is not None:
            choices = [self._choice(form, each) for form, each in zip(forms, parts, strict=True)]
            found = preferred(choices, reasons, cast(CompareOptions, self.options).disagreement)
            found.scores.update({name: value for each in parts for name, value in each.items() if name in self._scored})
            return found
        scores: dict[str, Score] = {}
        for criterion, each in zip(self._criteria, parts, strict=True):
            scores[criterion.name] = each[criterion.name]
        titles = [f"{criterion.name}: " if len(reasons) > 1 else "" for criterion in self._criteria]
        justification = "\n".join(title + reason for title, reason in zip(titles, reasons, strict=False))
        return ParsedAnswer(scores, justification or None)

    def _choice(self, form: TextForm, parts: Mapping[str, int | str]) -> str:
        """Which answer an answer prefers, in terms of what it shows."""
        compare = self.file.compare
        assert compare is not None
        names = {asked.name: part.name for asked, part in zip(self._form.parts, form.parts, strict=True)}
        if compare.choice is not None:
            return compare.meanings[str(parts[compare.choice])]
        first, second = int(parts[names[compare.first]]), int(parts[names[compare.second]])
        return "A" if first > second else "B" if second > first else "both"

    def weighed(self, probabilities: Sequence[Mapping[str, float] | None]) -> dict[str, Any]:
        compare = self.file.compare
        if compare is None:
            return super().weighed(probabilities)
        told = [each and {compare.meanings[label]: share for label, share in each.items()} for each in probabilities]
        return super().weighed(swapped_back(told))


@dataclass(frozen=True, slots=True)
class _Filler:
    """Fills in the places of values, each once, so that a sample's own braces stay as they are."""

    file: TemplateFile
    values: Mapping[str, str]
    words: Mapping[str, Words]
    texts: Mapping[str, str]
    criterion: Criterion

    def filled(self, words: Words) -> str:
        return "".join(part if isinstance(part, str) else self._value(part.name) for part in words)

    def _value(self, place: str) -> str:
        name = self.values.get(place, place)
        if name == RUBRIC and (whole := self.texts.get(RUBRIC, self.criterion.whole)):
            return whole
        if name.partition(".")[0] == CRITERION:
            _, _, level = name.partition(".")
            return self.criterion.levels[level] if level else self.criterion.description
        if name not in self.file.texts:
            return self.texts[name]
        if self.file.texts[name].each_level is None:
            return self.filled(self.words[name])
        return "\n".join(self._level(name, score, meaning) for score, meaning in self.criterion.levels.items())

    def _level(self, name: str, score: str, meaning: str) -> str:
        given = {"score": score, "description": meaning}
        return "".join(part if isinstance(part, str) else given[part.name] for part in self.words[name])


def _ready(name: str) -> str:
    """The name of a rubric of the authors among the texts that are cut."""
    return f"ready {name}"


def _cut(file: TemplateFile) -> Mapping[str, Words]:
    """Cut every text out of its source.

    Raises:
        MagistrateError: A source is not on this machine, or a text is not in it.
    """
    contents = {source.name: source.read() for source in file.sources}
    for source in file.sources:
        if contents[source.name] is None:
            raise MagistrateError(
                f"judge `{file.name}` needs its authors' file {source}, which is not on this machine: "
                f"run `magistrate judges fetch {file.name}` (or with this template's file), and `--template FILE` for a copy"
            )
    words: dict[str, Words] = {}
    whole = {_ready(name): cut.model_copy(update={"style": "names"}) for name, cut in file.ready.items()}
    for name, cut in {**file.texts, **whole}.items():
        names = () if name in whole else tuple(file.values)
        try:
            words[name] = cut.words(contents.get(cut.source or next(iter(contents), "")) or "", names)
            if not words[name]:
                raise MagistrateError("it is empty")
        except MagistrateError as error:
            raise MagistrateError(f"judge `{file.name}`: text `{name}` cannot be cut out: {error}") from None
    for fault in place_faults(file, words):
        raise MagistrateError(f"judge `{file.name}`: {'.'.join(map(str, fault.place))}: {fault.message}")
    return words


def _text_of(words: Words) -> str:
    return "".join(map(str, words))


def _spelt(words: Words) -> list[str | list[str]]:
    return [part if isinstance(part, str) else [part.name] for part in words]


def template_class(file: TemplateFile) -> type[TemplateJudge]:
    """Make the class of a template's judge."""
    needed, optional = file.fields
    options = {
        (False, False): JudgeOptions,
        (False, True): RatingOptions if file.ready else RatingNeedsCriteria,
        (True, False): CompareOptions,
        (True, True): CompareByCriterion if file.ready else CompareNeedsCriteria,
    }[file.compare is not None, file.takes_criterion]
    sample = {name: EXAMPLES.get(name, f"The {name.replace('_', ' ')} stands here.") for name in needed}
    facts = {
        "__doc__": file.summary,
        "file": file,
        "name": file.name,
        "summary": file.summary,
        "source": file.article,
        "thinks": file.thinks,
        "fields": Fields(
            tuple(needed),
            tuple(optional),
            answer=next((name for name in (ANSWER, ANSWER_A) if name in needed), None),
            question=QUESTION if QUESTION in needed else None,
        ),
        "example": JudgeExample(sample, {} if file.ready or not file.takes_criterion else {"criteria": _example_criteria(file)}),
        "begins_answers": any(prompt.answer_start for prompt in file.prompts),
        "samples": Pairwise.samples if set(needed) == {QUESTION, ANSWER_A, ANSWER_B} else None,
        "Options": options,
    }
    return type("Template", (TemplateJudge,), facts)


def _made(file: TemplateFile, options: Mapping[str, Any]) -> TemplateJudge:
    return template_class(file)(**options)


def _example_criteria(file: TemplateFile) -> str:
    """A rubric with the judge's scale."""
    part = next((part for part in file.form.parts if part.name == file.score), None)
    legal = part.legal if part is not None and part.legal else (1, 2, 3)
    scale = f'"{legal[0]}-{legal[-1]}"' if isinstance(legal[0], int) else json.dumps(legal)
    words = [EXAMPLE_LEVELS[place * 2 // max(1, len(legal) - 1)] for place in range(len(legal))]
    meanings = ", ".join(f'"{score}" = "{meaning}"' for score, meaning in zip(legal, words, strict=True))
    return (
        '[[metric]]\nname = "practical"\ndescription = "Can one follow the answer with what a kitchen has?"\n'
        f"scale = {scale}\nlevels = {{ {meanings} }}\n"
    )
