"""The content of template files, and the rules that it obeys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, TypeAdapter, ValidationError

from judges.decoding import MOST_THOUGHT
from judges.rubric_file import MOST_TOKENS, PASS_FAIL, JudgeName, Scale, Text, filled, scale_values
from judges.templates.cutting import Cut, Hole, parsed
from judges.templates.sources import Source
from judges.text_form import FREE, Part, Piece, TextForm, parts_in

CRITERION = "criterion"
"""The value that is a criterion's description; ``criterion.3`` is the description of its level 3."""

RUBRIC = "rubric"
"""The text that a sample's own ``rubric``, or one that the authors wrote, replaces."""

_SCALE: TypeAdapter[str | tuple[str, ...]] = TypeAdapter(Scale)


def _part(value: object) -> object:
    if isinstance(value, str) and value in (*FREE, CRITERION):
        return value
    if value == PASS_FAIL or not isinstance(value, str | list | tuple):
        raise ValueError(f'must be {", ".join((*FREE, CRITERION))}, a range such as "1-5" or a list of labels')
    try:
        return scale_values(_SCALE.validate_python(value))
    except ValidationError as error:
        words = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ValueError(words.replace(f'or "{PASS_FAIL}"', f"or {', '.join(FREE)}")) from None


PartKind = Annotated[str | tuple[int, ...] | tuple[str, ...], BeforeValidator(_part)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PromptSpec(_Table):
    """A prompt: the messages of a conversation, or a whole text. Places of values name texts, fields and the criterion.

    Attributes:
        when: The fields that a sample must have for this prompt. The first prompt whose fields a sample has is asked.
        system: The system's message.
        user: The user's message.
        plain: The whole prompt, in place of messages, for a model without a chat template.
        answer_start: The beginning of the answer, which the model continues.
        values: What fills places of values in this prompt, where it differs from the file's ``values``.
    """

    when: tuple[str, ...] = ()
    system: str | None = None
    user: str | None = None
    plain: str | None = None
    answer_start: str = ""
    values: dict[str, str] = {}

    @property
    def messages(self) -> Sequence[tuple[str, str]]:
        """Role and text of each message."""
        given = (("system", self.system), ("user", self.user), ("user", self.plain))
        return [(role, text) for role, text in given if text is not None]


class AnswerSpec(_Table):
    """The form of an answer.

    Attributes:
        pattern: Fixed words and ``{part}``.
        parts: Part to what it is: ``text``, ``json text``, ``space``, a range such as ``1-5``, a list of labels, or ``criterion``
            for the criterion's own scale.
    """

    pattern: Annotated[str, Field(min_length=1)]
    parts: dict[str, PartKind]

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The fixed words and the parts, in their order."""
        pieces: list[Piece] = []
        for words, name in parts_in(self.pattern):
            pieces += [words] if words else []
            kind = self.parts.get(name)
            if kind is not None:
                pieces.append(Part(name, kind=kind) if isinstance(kind, str) else Part(name, kind))
        return tuple(pieces)


class CompareSpec(_Table):
    """How parts of an answer say which of two answers is better.

    Attributes:
        choice: The part that names the better one.
        first: Its label for the one shown first; without ``choice``, the part with the score of the one shown first.
        second: The same for the one shown second.
        tie: The label of a tie, if there is one. Two equal scores are a tie.
        neither: The label of two bad answers, if there is one.
    """

    choice: str | None = None
    first: str
    second: str
    tie: str | None = None
    neither: str | None = None

    @property
    def meanings(self) -> Mapping[str, str]:
        """Label of ``choice`` to the choice that it means, in terms of the answer shown first, A, and the other one, B."""
        labels = {"A": self.first, "B": self.second, "both": self.tie, "neither": self.neither}
        return {label: choice for choice, label in labels.items() if label is not None}


class TemplateFile(_Table):
    """The content of a template file, which obeys all rules.

    Attributes:
        summary: What the judge judges, in one line.
        article: Where the method is described.
        thinks: Tokens that its models think for before they answer.
        max_tokens: Room for an answer.
        sources: The published files that texts are cut out of.
        texts: The texts.
        ready: Rubrics of the authors, by the name of their metric; the first is the default.
        values: Place of a value in a text to what fills it, if their names differ: a field, a text, or the criterion.
        prompts: The prompts.
        answer: The form of an answer.
        score: The part with the score of an answer, for a judge of single answers.
        compare: How two answers compare, for a judge of pairs.
        justification: The part with the reasons.
    """

    name: JudgeName
    summary: Text
    article: Text
    thinks: Annotated[StrictInt, Field(ge=0, le=MOST_THOUGHT)] = 0
    max_tokens: Annotated[StrictInt, Field(ge=1, le=MOST_TOKENS)] = 1024
    sources: Annotated[tuple[Source, ...], Field(alias="source")] = ()
    texts: dict[str, Cut] = {}
    ready: dict[str, Cut] = {}
    values: dict[str, str] = {}
    prompts: Annotated[tuple[PromptSpec, ...], Field(alias="prompt"), AfterValidator(filled)]
    answer: AnswerSpec
    score: str | None = None
    compare: CompareSpec | None = None
    justification: str | None = None

    @cached_property
    def form(self) -> TextForm:
        """The form of an answer."""
        return TextForm(self.answer.pieces, self.max_tokens)

    @cached_property
    def named(self) -> Sequence[str]:
        """What places of values stand for, in the order of ``values``: fields, texts and parts of the criterion."""
        own = [text for prompt in self.prompts for _, text in prompt.messages]
        own += [cut.text for cut in self.texts.values() if cut.text is not None]
        places = [part.name for text in own for part in parsed(text, "format", ()) if isinstance(part, Hole)]
        filled = [*self.values.values(), *(name for prompt in self.prompts for name in prompt.values.values())]
        return list(dict.fromkeys([*filled, *(self.values.get(place, place) for place in places)]))

    @property
    def takes_criterion(self) -> bool:
        """Whether a prompt shows a criterion of the user's, or the answer has its scale."""
        return RUBRIC in self.texts or any(map(is_criterion, self.named)) or CRITERION in self.answer.parts.values()

    @cached_property
    def levels(self) -> Sequence[str] | None:
        """The levels of the criterion that prompts describe; ``None`` if they describe all."""
        if any(cut.each_level is not None for cut in self.texts.values()):
            return None
        return [name.partition(".")[2] for name in self.named if is_criterion(name) and name != CRITERION]

    @cached_property
    def fields(self) -> tuple[Sequence[str], Sequence[str]]:
        """The fields of a sample that every prompt reads, and those that some do."""
        read = [name for name in self.named if name not in self.texts and not is_criterion(name)]
        some = {name for prompt in self.prompts for name in prompt.when}
        optional = [name for name in read if name in some] + ([RUBRIC] if RUBRIC in self.texts else [])
        return [name for name in read if name not in some], optional


def is_criterion(name: str) -> bool:
    """Whether a name stands for the criterion, or for one of its levels."""
    return name.partition(".")[0] == CRITERION
