"""Who is calling: by a key, or nobody in particular on a server that only its own machine reaches."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from judges.errors import MagistrateError
from server.errors import ApiError, response_to
from server.safety.keys import PREFIX, opens, parse
from server.settings import Settings

if TYPE_CHECKING:
    from server.store import Key, Store

CACHE_SECONDS = 5.0
"""How long a key may still open the server after it was revoked, since what was found of it is remembered for as long."""

MOST_REMEMBERED = 10_000
"""Keys and callers remembered. Ids that were made up are forgotten before they fill the memory."""

MOST_LOOKUPS = 4
"""Keys looked up at a time. Callers with made-up keys leave the other threads to everyone else."""

CHALLENGES = (("www-authenticate", "Bearer"), ("www-authenticate", 'Basic realm="magistrate", charset="UTF-8"'))
"""Two headers: browsers read but one challenge from a header, and ask for a password only if that is ``Basic``."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        name: ``local``, or ``key:`` and the name of the key: what is uploaded belongs to this name.
    """

    name: str


LOCAL = Caller("local")


class Doorkeeper:
    """Tells callers by their keys, and holds each to so many calls a minute.

    Args:
        store: Where the keys are.
        settings: The server's, for ``open`` and ``rate``.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._found: OrderedDict[str, tuple[float, Key | None]] = OrderedDict()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lookups = asyncio.Semaphore(MOST_LOOKUPS)

    async def admit(self, scope: Scope) -> Caller:
        """Who sends a request. It counts as one call, however often it is asked about.

        Raises:
            ApiError: 401 for a key that is missing, unknown or revoked; 429 for too many calls.
            StoreUnavailableError: The key cannot be looked up now.
        """
        state = scope.setdefault("state", {})
        caller: Caller | None = state.get("caller")
        if caller is None:
            caller = await self._identify(scope)
            state["caller"] = caller
            self._charge(caller)
        return caller

    async def _identify(self, scope: Scope) -> Caller:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(sent) > 1:
            raise _refused("the request has more than one `Authorization` header: send one", "invalid_api_key")
        text = _key_text(sent[0]) if sent else None
        if not sent or (text is not None and not text.startswith(PREFIX) and self._settings.open and _is_bearer(sent[0])):
            if self._settings.open:
                return LOCAL
            raise _refused("this server asks for a key: send it as `Authorization: Bearer mag_...`", "missing_api_key")
        parsed = parse(text or "")
        key = await self._key(parsed[0]) if parsed else None
        if not opens(text or "", key) or key is None:
            raise _refused("the key is unknown or was revoked: ask whoever runs this server for another", "invalid_api_key")
        return Caller(f"key:{key.name}")

    async def _key(self, key_id: str) -> Key | None:
        remembered = self._found.get(key_id)
        if remembered is not None and monotonic() < remembered[0]:
            return remembered[1]
        async with self._lookups:
            # Before the look-up: a key that is revoked during it is not remembered for any longer than one revoked after it.
            until = monotonic() + CACHE_SECONDS
            key = await asyncio.to_thread(self._store.key, key_id)
        _remember(self._found, key_id, (until, key))
        return key

    def _charge(self, caller: Caller) -> None:
        """Take one call from the caller's allowance, which fills up again at ``rate`` a minute."""
        rate = self._settings.rate
        if rate is None:
            return
        now = monotonic()
        left, since = self._allowances.get(caller.name, (float(rate), now))
        left = min(float(rate), left + (now - since) * rate / 60)
        enough = left >= 1
        _remember(self._allowances, caller.name, (left - 1 if enough else left, now))
        if not enough:
            seconds = max(1, math.ceil((1 - left) * 60 / rate))
            message = f"more than {rate:,} calls a minute: call again in {seconds} seconds"
            raise ApiError(429, message, "rate_limit_exceeded", headers={"retry-after": str(seconds)})


def _remember(memory: OrderedDict[str, Any], name: str, value: object) -> None:
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > MOST_REMEMBERED:
        memory.popitem(last=False)


def _refused(message: str, code: str) -> ApiError:
    return ApiError(401, message, code, headers=CHALLENGES)


def _is_bearer(header: bytes) -> bool:
    return header.split(b" ", 1)[0].lower() == b"bearer"


def _key_text(header: bytes) -> str | None:
    """The key in an ``Authorization`` header: what bears it, or the password of any user. ``None`` where there is none."""
    scheme, _, rest = header.strip().partition(b" ")
    match scheme.lower():
        case b"bearer":
            return rest.strip().decode("latin-1")
        case b"basic":
            try:
                _, colon, password = base64.b64decode(rest.strip(), validate=True).decode("latin-1").partition(":")
            except binascii.Error:
                return None
            return password if colon else None
    return None


def doorkeeper(app: Any) -> Doorkeeper:
    """The doorkeeper of an application, whose state has a store and settings."""
    state = app.state
    if not hasattr(state, "doorkeeper"):
        state.doorkeeper = Doorkeeper(state.store, state.settings)
    found: Doorkeeper = state.doorkeeper
    return found


async def caller(request: Request) -> Caller:
    """Who calls, for a route to depend on.

    Raises:
        ApiError: 401 for a key that is missing, unknown or revoked; 429 for too many calls.
    """
    return await doorkeeper(request.app).admit(request.scope)


CallerNow = Annotated[Caller, Depends(caller)]


class KeysFirst:
    """Middleware that asks for the key before anything of the body is read: a route's own look at it comes after that.

    Args:
        app: What answers.
        prefix: The paths that need a caller begin with it.
    """

    def __init__(self, app: ASGIApp, prefix: str = "/v1/") -> None:
        self.app = app
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a known caller's request answered, or refuse it."""
        if scope["type"] == "http" and scope["path"].startswith(self.prefix):
            try:
                await doorkeeper(scope["app"]).admit(scope)
            except MagistrateError as error:
                await response_to(error, scope)(scope, receive, send)
                return
        await self.app(scope, receive, send)
