"""The rules that a template file obeys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from judges.data.located import Fault, Place
from judges.rubric_file import is_unwritable
from judges.templates.cutting import FORMAT, Hole, Words, parsed
from judges.templates.file import CRITERION, RUBRIC, CompareSpec, TemplateFile, is_criterion
from judges.text_form import TEXT, Part, parts_in

MOST_PARTS = 20

MOST_PLACES = 200
"""Places of values in a prompt, each of which may show a whole field."""

DEEPEST_TEXT = 16

LONGEST_LABEL = 200

LONGEST_PATTERN = 100_000

RESERVED = frozenset(("preference", "orders_agree", "score_a", "score_b", "score_a_swapped", "score_b_swapped"))
"""Names of metrics of a judge of pairs, which no part may have."""

LONGEST_WORDS = 64
"""Characters of fixed words behind free text, whose pattern tells where they first occur."""

NAME = re.compile(r"[A-Za-z_]\w*")


def find_faults(file: TemplateFile) -> Iterator[Fault]:
    """Find conflicts between values that are valid by themselves."""
    yield from _source_faults(file)
    yield from _text_faults(file)
    yield from _prompt_faults(file)
    own = {name: cut.words("", ()) for name, cut in file.texts.items() if cut.own is not None}
    yield from place_faults(file, own)
    yield from _answer_faults(file)
    yield from _score_faults(file)


def _source_faults(file: TemplateFile) -> Iterator[Fault]:
    names = [source.name for source in file.sources]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Fault(("source", number, "name"), f"`{name}` is the name of two sources; give each its own `name`")
    for table, cuts in (("texts", file.texts), ("ready", file.ready)):
        for name, cut in cuts.items():
            if cut.own is None and not names:
                yield Fault((table, name), "needs a `[[source]]` that it is cut out of, or its `text`")
            elif cut.own is None and (cut.source or "") not in names:
                named = f"`{cut.source}`" if cut.source else "no source"
                yield Fault((table, name), f"names {named}, but there are several; name one of {', '.join(names)}")
    if file.ready and RUBRIC not in file.texts:
        yield Fault(("ready",), f"needs a text `{RUBRIC}` that it replaces")


def _prompt_faults(file: TemplateFile) -> Iterator[Fault]:
    for number, prompt in enumerate(file.prompts):
        place = ("prompt", number)
        if prompt.plain is None and prompt.user is None:
            yield Fault(place, "needs `user`, or `plain` for a model without a chat template")
        if prompt.plain is not None and (prompt.user is not None or prompt.system is not None):
            yield Fault((*place, "plain"), "is the whole prompt, so `system` and `user` have no meaning; leave them out")
        for name in prompt.when:
            if name not in file.fields[1]:
                yield Fault((*place, "when"), f"names `{name}`, which no prompt shows")
    if not file.fields[0]:
        yield Fault(("prompt",), "shows the model nothing of a sample: name its fields, such as `{question}`")
    if file.compare is not None and not {"answer_a", "answer_b"} <= set(file.fields[0]):
        yield Fault(("prompt",), "must show `{answer_a}` and `{answer_b}`, which a judge of pairs compares")
    if file.prompts[-1].when:
        yield Fault(("prompt", len(file.prompts) - 1, "when"), "leaves samples without a prompt; give the last prompt no `when`")


def _text_faults(file: TemplateFile) -> Iterator[Fault]:
    """Find texts of the file's own that cannot be written, or have a brace that is neither a place's nor doubled."""
    texts: list[tuple[Place, str | None]] = [
        (("texts", name), cut.own) for name, cut in file.texts.items() if cut.own is not None
    ]
    texts += [(("ready", name), cut.own) for name, cut in file.ready.items() if cut.own is not None]
    for number, prompt in enumerate(file.prompts):
        texts += [(("prompt", number, key), getattr(prompt, key)) for key in ("system", "user", "plain")]
        texts.append((("prompt", number, "answer_start"), prompt.answer_start.replace("{", "{{").replace("}", "}}")))
    for place, text in texts:
        left = re.sub(r"\{\{|\}\}", "", FORMAT.sub("", text or ""))
        if text is not None and is_unwritable(text, "\t\r\n"):
            yield Fault(place, "holds a control character or half of a surrogate pair")
        if "{" in left or "}" in left:
            yield Fault(place, "has a brace that is part of no `{name}`; write braces that are meant as `{{` and `}}`")
        if place[0] == "ready" and text == "":
            yield Fault(place, "is empty")
    for name, cut in file.texts.items():
        strange = [part.name for part in parsed(cut.each_level or "", "format", ()) if isinstance(part, Hole)]
        for place_name in strange:
            if place_name not in ("score", "description"):
                yield Fault(("texts", name), f"has the place `{place_name}`; a level has `score` and `description`")


def place_faults(file: TemplateFile, words: Mapping[str, Words]) -> Iterator[Fault]:
    """Find places of values that nothing fills, or that a text would fill with itself.

    Args:
        file: The file.
        words: The texts that are known; a place that is filled by another is taken to be right.
    """
    for number, prompt in enumerate(file.prompts):
        places = _Places(file, {**file.values, **prompt.values}, {*file.fields[0], *prompt.when}, words)
        try:
            count = sum(places.count(parsed(text, "format", ()), ()) for _, text in prompt.messages)
        except PlaceError as error:
            yield Fault(("prompt", number), str(error))
            continue
        if count > MOST_PLACES:
            yield Fault(("prompt", number), f"has {count:,} places of values; it may have {MOST_PLACES}")


class PlaceError(Exception):
    """A place of a value is wrong."""


@dataclass
class _Places:
    """Counts the places of values that a prompt has once its texts are filled in. Each text is looked at once."""

    file: TemplateFile
    values: Mapping[str, str]
    fields: Collection[str]
    words: Mapping[str, Words]
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, words: Words, path: tuple[str, ...]) -> int:
        return sum(self._of(part.name, path) for part in words if isinstance(part, Hole))

    def _of(self, place: str, path: tuple[str, ...]) -> int:
        name = self.values.get(place, place)
        if name in path:
            raise PlaceError(f"fills text `{name}` with itself: {' → '.join([*path[path.index(name) :], name])}")
        if len(path) > DEEPEST_TEXT:
            raise PlaceError(f"nests texts more than {DEEPEST_TEXT} deep, down to `{name}`")
        if is_criterion(name):
            if self.file.ready and RUBRIC not in path:
                raise PlaceError(f"shows `{name}` outside the text `{RUBRIC}`, which a ready rubric replaces")
            return 1
        if name not in self.file.texts:
            if name not in self.fields:
                raise PlaceError(self._unknown(place, name, path))
            return 1
        if name not in self.counts:
            known = self.words.get(name, ()) if self.file.texts[name].each_level is None else ()
            self.counts[name] = 1 + self.count(known, (*path, name))
        return self.counts[name]

    def _unknown(self, place: str, name: str, path: tuple[str, ...]) -> str:
        where = f"in text `{path[-1]}`" if path else "in its words"
        if name in self.file.fields[1]:
            return f"shows `{name}` {where}, which a sample may lack; name it in the prompt's `when`"
        return f"has the place `{place}` {where}, which `values` does not explain"


def _answer_faults(file: TemplateFile) -> Iterator[Fault]:
    named = [name for _, name in parts_in(file.answer.pattern)][:-1]
    place = ("answer", "pattern")
    if len(named) > MOST_PARTS:
        yield Fault(place, f"has {len(named)} parts; it may have {MOST_PARTS}")
        return
    for name in dict.fromkeys(named):
        if not NAME.fullmatch(name):
            yield Fault(place, f"`{{{name}}}` is no part's name; write braces that are meant as `{{{{` and `}}}}`")
        elif name not in file.answer.parts:
            yield Fault(place, f"has the part `{name}`, which `parts` does not describe")
        if named.count(name) > 1:
            yield Fault(place, f"has the part `{name}` twice")
    for name in file.answer.parts:
        if name not in named:
            yield Fault(("answer", "parts", name), "does not occur in `pattern`")
    pieces = file.answer.pieces
    for one, other in pairwise(pieces):
        if isinstance(one, Part) and isinstance(other, Part):
            yield Fault(place, f"needs words between `{one.name}` and `{other.name}`, so that it can be seen where one ends")
        if isinstance(one, Part) and one.kind == TEXT and isinstance(other, str) and len(other) > LONGEST_WORDS:
            yield Fault(place, f"has {len(other)} characters behind `{one.name}`; it may have {LONGEST_WORDS}")
        if isinstance(one, Part) and one.kind == TEXT and isinstance(other, str) and not other.strip():
            yield Fault(place, f"has white space alone behind `{one.name}`, which would end at its first")
        if isinstance(one, Part) and one.kind == "json text" and not str(other).startswith('"'):
            yield Fault(place, f"needs a quote behind `{one.name}`, which is the inside of a JSON string")
    if pieces and isinstance(pieces[-1], Part) and pieces[-1].kind == "json text":
        yield Fault(place, f"needs a quote behind `{pieces[-1].name}`, which is the inside of a JSON string")
    if "\0" in file.answer.pattern:
        yield Fault(place, "holds a character that no answer has")
    for name, kind in file.answer.parts.items():
        if kind == CRITERION and name != file.score:
            yield Fault(("answer", "parts", name), "has the criterion's scale, which is for the part that `score` names")
        if not isinstance(kind, str) and any(len(str(label)) > LONGEST_LABEL for label in kind):
            yield Fault(("answer", "parts", name), f"has a label of more than {LONGEST_LABEL} characters")
        if file.compare is not None and name in RESERVED:
            yield Fault(("answer", "parts", name), "has the name of a metric of a judge of pairs; give it another")
    if not any(isinstance(kind, str) and kind == CRITERION for kind in file.answer.parts.values()) and (
        len(file.form.pattern) > LONGEST_PATTERN
    ):
        yield Fault(place, f"makes a constraint of {len(file.form.pattern):,} characters; it may have {LONGEST_PATTERN:,}")


def _score_faults(file: TemplateFile) -> Iterator[Fault]:
    parts = {piece.name: piece for piece in file.answer.pieces if isinstance(piece, Part)}
    if (file.score is None) == (file.compare is None):
        yield Fault((), "needs either `score`, the part with an answer's score, or `[compare]`")
    for key, name in (("score", file.score), ("justification", file.justification)):
        if name is not None and name not in parts:
            yield Fault((key,), f"`{name}` is not a part of the answer")
    if file.score in parts and not parts[str(file.score)].legal and parts[str(file.score)].kind != CRITERION:
        yield Fault(("score",), f"`{file.score}` is {TEXT}; a score has a range or a list of labels")
    if file.justification in parts and (parts[str(file.justification)].legal or parts[str(file.justification)].kind == CRITERION):
        yield Fault(("justification",), f"`{file.justification}` is a score; reasons are text")
    legal = parts[str(file.score)].legal if file.score in parts else ()
    for name in file.named if legal else ():
        level = name.partition(".")[2]
        if is_criterion(name) and level and level not in map(str, legal):
            yield Fault(("values",), f"`{name}` is no level of `{file.score}`, which has {', '.join(map(str, legal))}")
    if file.compare is not None:
        yield from _compare_faults(file.compare, parts)


def _compare_faults(compare: CompareSpec, parts: Mapping[str, Part]) -> Iterator[Fault]:
    given = [label for label in (compare.first, compare.second, compare.tie, compare.neither) if label is not None]
    if len(set(given)) < len(given):
        yield Fault(("compare",), "names one thing twice")
    if compare.choice is None:
        for key in ("first", "second"):
            name = getattr(compare, key)
            if name not in parts or not parts[name].is_number:
                yield Fault(("compare", key), f"`{name}` is not a part with a range, and without `choice` two scores compare")
        for key in ("tie", "neither"):
            if getattr(compare, key) is not None:
                yield Fault(("compare", key), "has no meaning without `choice`: equal scores are a tie")
        return
    legal = parts[compare.choice].legal if compare.choice in parts else ()
    if not legal or parts[compare.choice].is_number:
        yield Fault(("compare", "choice"), f"`{compare.choice}` is not a part with a list of labels")
        return
    for label in compare.meanings:
        if label not in map(str, legal):
            yield Fault(("compare",), f"`{label}` is not a label of `{compare.choice}`")
    for label in map(str, legal):
        if label not in compare.meanings:
            yield Fault(("compare",), f"does not say what `{label}` of `{compare.choice}` means")
