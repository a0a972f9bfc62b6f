"""The judge that a request specifies: by name with options, or by the text of a rubric.

Nothing here opens a file. On the command line an option or the judge may name one; over HTTP lists and rubrics are sent
themselves, so that no caller can read the server's files.
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

from judges.catalog import JUDGES, check_own_name, judge_class, no_such_judge
from judges.data.samples import kind_of
from judges.decoding import Decoding
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.rubric import Rubric, read_rubric
from judges.templates.shipped import TEMPLATES, is_template_text, read_template
from server.bodies import Body

LARGEST_RUBRIC = 256 * 1024
"""Bytes of a rubric's text."""

MOST_VALUES = 120
"""Values of one option, as many as there can be attributes. The time to make a judge grows with them."""

LONGEST_VALUE = 20_000
"""Characters of one text in an option: a rubric may be one."""

CACHED_JUDGES = 256
"""Judges that are cached, since making one compiles patterns."""

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


class JudgeSpec(Decoding, Body):
    """The part of a request that specifies the judge: one that the server knows, or a rubric of the caller's."""

    judge: str | None = Field(
        None,
        max_length=100,
        description="A judge's name; `GET /v1/judges` lists them. By default the one that the model was made for.",
        examples=["llm-eval"],
    )
    options: dict[str, OptionValue] = Field(
        default_factory=dict,
        description="The judge's options, as JSON: `GET /v1/judges/{name}` lists them and their legal values.",
        examples=[{"scale": "0-100", "metrics": {"engaging": "how much the reply invites an answer"}}],
    )
    rubric: str | None = Field(
        None,
        description=f"The text of a rubric with your own metrics, in place of `judge`. At most {LARGEST_RUBRIC:,} bytes.",
        examples=['name = "kind"\nfields = ["reply"]\n[[metric]]\nname = "kind"\ndescription = "Is it kind?"\nscale = "1-5"\n'],
    )
    rubric_format: Literal["toml", "yaml"] = Field("toml", description="The language of the rubric.")

    @property
    def decoding(self) -> Decoding:
        """The request's decoding settings."""
        return Decoding(**{name: getattr(self, name) for name in Decoding.model_fields})


def judge_of(spec: JudgeSpec, default: str | None = None) -> Judge:
    """Make the judge that a request specifies. Equal requests share one. May be called from any thread.

    A large rubric takes a second or two to read, so call this off the event loop.

    Args:
        spec: The request.
        default: Name of the judge if the request has neither a name nor a rubric.

    Raises:
        MagistrateError: The judge or an option does not exist, an option has an illegal value, or the rubric is faulty.
    """
    if spec.rubric is not None:
        if spec.judge is not None:
            raise MagistrateError("give either `judge` or `rubric`, not both: a rubric is a judge of its own")
        return _rubric(spec.rubric, spec.rubric_format, spec.options)
    name = spec.judge if spec.judge is not None else default
    if name is None:
        raise MagistrateError(f"no judge is given: name one in `judge` ({', '.join(JUDGES)}), or put a rubric's text in `rubric`")
    if name not in JUDGES and name not in TEMPLATES:
        raise MagistrateError(f"{no_such_judge(name)}, and rubrics: put the text of one in `rubric`")
    judge, options = judge_class(name), spec.options
    _check_size(name, options)
    judge.Options.read(name, options)
    if name in TEMPLATES and name not in TEMPLATES.ready():
        return judge(**options)  # refuses; its authors' file may be fetched while the server runs
    return _cache.get(_key(name, options), lambda: judge(**options))


def _rubric(text: str, language: str, options: Mapping[str, Any]) -> Judge:
    content = text.encode(errors="surrogatepass")
    if len(content) > LARGEST_RUBRIC:
        raise MagistrateError(f"the rubric has {len(content):,} bytes; it may have {LARGEST_RUBRIC:,}")
    text, suffix = text.removeprefix("\ufeff").replace("\r\n", "\n"), f".{language}"
    is_template = is_template_text(text, suffix)
    if is_template:
        _check_size("the template", options)
    else:
        Rubric.Options.read(Rubric.name, options)

    def make() -> Judge:
        judge = read_template(text, suffix)(**options) if is_template else Rubric(read_rubric(text, suffix), **options)
        check_own_name(judge, "the rubric")
        return judge

    return _cache.get(_key(f"{language}:{hashlib.sha256(content).hexdigest()}", options), make)


def _check_size(judge: str, options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if isinstance(value, list | dict) and len(value) > MOST_VALUES:
            size = f"{kind_of(value)} of {len(value):,}"
            raise MagistrateError(f"option `{key}` of judge `{judge}` is {size}; over HTTP it may hold {MOST_VALUES}")
        parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if any(isinstance(part, str) and len(part) > LONGEST_VALUE for part in parts):
            raise MagistrateError(f"option `{key}` of judge `{judge}` has a text of more than {LONGEST_VALUE:,} characters")


def _key(name: str, options: Mapping[str, Any]) -> str:
    """Make the same text of equal requests. The order of options is irrelevant; that of metrics is the order of the answer."""
    return json.dumps([name, sorted(options.items())])


class _JudgeCache:
    """The judges made last, or the errors of making them. If several threads want one at once, one of them makes it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._judges: OrderedDict[str, Future[Judge]] = OrderedDict()

    def get(self, key: str, make: Callable[[], Judge]) -> Judge:
        with self._lock:
            cached = self._judges.get(key)
            promised = cached or Future()
            self._judges[key] = promised
            self._judges.move_to_end(key)
            if len(self._judges) > self._most:
                self._judges.popitem(last=False)
        if cached is None:
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


_cache = _JudgeCache(CACHED_JUDGES)
