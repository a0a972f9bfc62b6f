"""What a request asks with: a judge by name and its options, or the text of a rubric, made into a judge.

Nothing here opens a file. On the command line an option may name one, and so may the judge; over HTTP a list comes as a list and
a rubric as its text, so that no caller reads what lies on the server.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from judges.catalog import JUDGES, check_own_name
from judges.decoding import Decoding
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.rubric import Rubric
from judges.rubric_check import read_rubric
from judges.samples import kind_of
from server.bodies import Body

LARGEST_RUBRIC = 256 * 1024
"""Bytes of a rubric's text."""

MOST_VALUES = 120
"""Values of one option: as many attributes as can be assigned. The time to make a judge grows with them."""

LONGEST_VALUE = 2_000
"""Characters of one text in an option."""

KEPT = 256
"""Judges kept for requests to come, since making one compiles patterns."""

OptionValue = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "number"},
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        }
    ),
]


class JudgeRequest(Decoding, Body):
    """The part of a request that says what is asked: a judge that the server knows, or a rubric of the caller's own."""

    judge: str | None = Field(
        None,
        max_length=100,
        description="A judge's name; `GET /v1/judges` lists them. By default the one that the model is meant for.",
        examples=["llm-eval"],
    )
    options: dict[str, OptionValue] = Field(
        default_factory=dict,
        description="The judge's options, each as JSON: `GET /v1/judges/{name}` says which there are and what they may be.",
        examples=[{"scale": "0-100", "metrics": {"engaging": "how much the reply invites an answer"}}],
    )
    rubric: str | None = Field(
        None,
        description=f"The text of a rubric, in place of `judge`: metrics of one's own. At most {LARGEST_RUBRIC:,} bytes.",
        examples=['name = "kind"\nfields = ["reply"]\n[[metric]]\nname = "kind"\ndescription = "Is it kind?"\nscale = "1-5"\n'],
    )
    rubric_format: Literal["toml", "yaml"] = Field("toml", description="The language that the rubric is written in.")

    @property
    def decoding(self) -> Decoding:
        """How answers are to be written."""
        return Decoding(**{name: getattr(self, name) for name in Decoding.model_fields})


def judge_of(request: JudgeRequest, usual: str | None = None) -> Judge:
    """The judge that a request asks with. It is kept: equal requests share one. May be called from any thread.

    A large rubric takes a second or two to read, so call it from a thread where others wait.

    Args:
        request: What is asked.
        usual: The judge where the request names none and has no rubric.

    Raises:
        MagistrateError: There is no such judge or option, an option has a value it may not have, or the rubric is not in order.
    """
    if request.rubric is not None:
        if request.judge is not None:
            raise MagistrateError("give either `judge` or `rubric`, not both: a rubric is a judge of its own")
        return _rubric(request.rubric, request.rubric_format, request.options)
    name = request.judge if request.judge is not None else usual
    if name is None:
        raise MagistrateError(f"no judge is given: name one in `judge` ({', '.join(JUDGES)}), or put a rubric's text in `rubric`")
    if name not in JUDGES:
        listed = ", ".join(JUDGES)
        raise MagistrateError(f"there is no judge `{name}`; there are {listed}, and rubrics: put the text of one in `rubric`")
    judge, options = JUDGES[name], request.options
    _check_size(name, options)
    judge.Options.read(name, options)
    return _kept.get(_key(name, options), lambda: judge(**options))


def _rubric(text: str, language: str, options: Mapping[str, Any]) -> Judge:
    content = text.encode(errors="surrogatepass")
    if len(content) > LARGEST_RUBRIC:
        raise MagistrateError(f"the rubric has {len(content):,} bytes; it may have {LARGEST_RUBRIC:,}")
    Rubric.Options.read(Rubric.name, options)

    def make() -> Judge:
        judge = Rubric(read_rubric(text.removeprefix("\ufeff").replace("\r\n", "\n"), f".{language}"), **options)
        check_own_name(judge, "the rubric")
        return judge

    return _kept.get(_key(f"{language}:{hashlib.sha256(content).hexdigest()}", options), make)


def _check_size(judge: str, options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        several = isinstance(value, list | dict)
        if several and len(value) > MOST_VALUES:
            held = f"{kind_of(value)} of {len(value):,}"
            raise MagistrateError(f"option `{key}` of judge `{judge}` is {held}; over HTTP it may hold {MOST_VALUES}")
        parts = [*value, *value.values()] if isinstance(value, dict) else value if several else [value]
        if any(isinstance(part, str) and len(part) > LONGEST_VALUE for part in parts):
            raise MagistrateError(f"option `{key}` of judge `{judge}` has a text of more than {LONGEST_VALUE:,} characters")


def _key(name: str, options: Mapping[str, Any]) -> str:
    """One text for equal requests. The order of options means nothing; that of metrics within one is the order of the answer."""
    return json.dumps([name, sorted(options.items())])


class _Kept:
    """Judges made lately, and why others could not be. One that several threads want at once is made by one of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._judges: OrderedDict[str, Future[Judge]] = OrderedDict()

    def get(self, key: str, make: Callable[[], Judge]) -> Judge:
        with self._lock:
            found = self._judges.get(key)
            promised = found or Future()
            self._judges[key] = promised
            self._judges.move_to_end(key)
            if len(self._judges) > self._most:
                self._judges.popitem(last=False)
        if found is None:
            self._fulfil(key, promised, make)
        error = promised.exception()
        if isinstance(error, MagistrateError):
            raise MagistrateError(str(error))
        return promised.result()

    def _fulfil(self, key: str, promised: Future[Judge], make: Callable[[], Judge]) -> None:
        try:
            judge = make()
            for form in judge.forms:
                _ = form.pattern
            _ = judge.version
        except BaseException as error:
            if not isinstance(error, MagistrateError):
                with self._lock:
                    self._judges.pop(key, None)
            promised.set_exception(error)
        else:
            promised.set_result(judge)


_kept = _Kept(KEPT)
