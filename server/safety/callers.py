"""Callers and their keys. On a server that only its own machine reaches, a call needs no key.

A key reads ``mag_<id>_<secret>``. The id finds the key and is no secret. Of the secret a SHA-256 digest is stored: slow hashes
such as Argon2 protect passwords that can be guessed, and 256 random bits cannot be.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import math
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from judges.errors import MagistrateError
from server.errors import ApiError, response_to
from server.safety.middleware import Middleware
from server.settings import Settings

if TYPE_CHECKING:
    from server.store import Key, Store

CACHE_SECONDS = 5.0
"""Seconds for which a key's look-up is cached, and so for which a revoked key may still work."""

MOST_REMEMBERED = 10_000
"""Keys and callers cached, the latest ones, so that made-up ids cannot fill the memory."""

MOST_LOOKUPS = 4
"""Keys looked up at once. Callers with made-up keys leave the other threads to everyone else."""

CHALLENGES = (("www-authenticate", "Bearer"), ("www-authenticate", 'Basic realm="magistrate", charset="UTF-8"'))
"""Two headers: browsers read one challenge of a header, and ask for a password only if it is ``Basic``."""

PREFIX = "mag_"
KEY_PATTERN = re.compile(r"mag_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
NO_KEY_DIGEST = hashlib.sha256(b"").hexdigest()
"""Compared with if there is no such key, so that an unknown id takes as long as a wrong secret. No secret is empty."""


def make_key() -> tuple[str, str, str]:
    """Make a key. Returns its id, its text, which is shown once, and the digest of its secret, which is stored."""
    key_id = secrets.token_hex(6)
    secret = secrets.token_urlsafe(32)
    return key_id, f"{PREFIX}{key_id}_{secret}", _digest(secret)


def parse(text: str) -> tuple[str, str] | None:
    """Split a key's text into its id and secret; ``None`` if it does not read like a key."""
    match = KEY_PATTERN.fullmatch(text)
    return (match[1], match[2]) if match else None


def opens(text: str, key: Key | None) -> bool:
    """Check a key's text.

    Returns:
        Whether the secret is right and the key is not revoked.
    """
    parsed = parse(text)
    secret = parsed[1] if parsed else ""
    right = hmac.compare_digest(_digest(secret), key.digest if key else NO_KEY_DIGEST)
    return right and parsed is not None and key is not None and key.id == parsed[0] and key.revoked_at is None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, named ``local``, or ``key:`` and the key's name. Files and batches belong to this name."""

    name: str


LOCAL = Caller("local")


class AccessControl:
    """Identifies callers by their keys and limits the calls a minute of each."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._cached_keys: OrderedDict[str, tuple[float, Key | None]] = OrderedDict()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lookups = asyncio.Semaphore(MOST_LOOKUPS)

    async def admit(self, scope: Scope) -> Caller:
        """Identify who sends a request. It counts as one call, however often this is called for it.

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
            raise _refused("this server requires a key: send it as `Authorization: Bearer mag_...`", "missing_api_key")
        parsed = parse(text or "")
        key = await self._key(parsed[0]) if parsed else None
        if not opens(text or "", key) or key is None:
            raise _refused("the key is unknown or was revoked: ask whoever runs this server for another", "invalid_api_key")
        return Caller(f"key:{key.name}")

    async def _key(self, key_id: str) -> Key | None:
        cached = self._cached_keys.get(key_id)
        if cached is not None and monotonic() < cached[0]:
            return cached[1]
        async with self._lookups:
            # Taken before the look-up, so that a key revoked during it is cached for no longer than one revoked after it.
            until = monotonic() + CACHE_SECONDS
            key = await asyncio.to_thread(self._store.key, key_id)
        _remember(self._cached_keys, key_id, (until, key))
        return key

    def _charge(self, caller: Caller) -> None:
        """Take one call from the caller's allowance, which is refilled at ``rate`` a minute."""
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
    """Read the key of an ``Authorization`` header: a bearer token, or the password of any user. ``None`` if it has neither."""
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


def access_control(app: Any) -> AccessControl:
    """Get an application's access control, made at first use from the store and the settings in its state."""
    state = app.state
    if not hasattr(state, "access_control"):
        state.access_control = AccessControl(state.store, state.settings)
    control: AccessControl = state.access_control
    return control


async def caller(request: Request) -> Caller:
    """Identify the caller, for a route to depend on.

    Raises:
        ApiError: 401 for a key that is missing, unknown or revoked; 429 for too many calls.
    """
    return await access_control(request.app).admit(request.scope)


CallerNow = Annotated[Caller, Depends(caller)]


class KeysFirst(Middleware):
    """Checks the key of calls under ``prefix`` before any of the body is read; a route's own check comes after that."""

    def __init__(self, app: ASGIApp, prefix: str = "/v1/") -> None:
        super().__init__(app)
        self.prefix = prefix

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a known caller's request, or refuse it."""
        if scope["path"].startswith(self.prefix):
            try:
                await access_control(scope["app"]).admit(scope)
            except MagistrateError as error:
                await response_to(error, scope)(scope, receive, send)
                return
        await self.app(scope, receive, send)
