"""Calls that carry an ``Idempotency-Key``: sent again, such a call is given the first one's answer, and makes nothing anew."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from server.errors import ApiError
from server.safety.callers import Caller
from server.safety.limits import header_values
from server.store import Answer, Store

LONGEST_KEY = 255
"""Characters."""


@dataclass(frozen=True, slots=True)
class KeyedCall:
    """A call that carries a key.

    Attributes:
        store: Remembers answers.
        owner: Who calls.
        key: The caller's name for the call.
    """

    store: Store
    owner: str
    key: str

    async def was_answered(self) -> bool:
        """Whether a call with this key was answered before."""
        return await asyncio.to_thread(self.store.answer, self.owner, self.key) is not None

    async def first_answer(self, digest: str) -> Response:
        """What the first call with this key was answered.

        Args:
            digest: Of what this call asks for.

        Raises:
            ApiError: 400: the first one asked for something else.
        """
        found = await asyncio.to_thread(self.store.answer, self.owner, self.key)
        if found is None or found.digest != digest:
            message = "this `Idempotency-Key` came with another request before: take a new key for each request"
            raise ApiError(400, message, "idempotency_key_reused")
        return Response(found.text, media_type="application/json", headers={"idempotent-replayed": "true"})

    def answer(self, digest: str, shown: BaseModel) -> Answer:
        """What is remembered of it."""
        return Answer(self.key, digest, shown.model_dump_json())


def keyed_call(request: Request, caller: Caller) -> KeyedCall | None:
    """The call as one that carries a key; ``None`` where it carries none.

    Raises:
        ApiError: 400: it carries several, or one that is empty or too long.
    """
    sent = header_values(request.scope, b"idempotency-key")
    if not sent:
        return None
    if len(sent) > 1 or not 0 < len(sent[0]) <= LONGEST_KEY:
        message = f"the `Idempotency-Key` header must come once, and have 1 to {LONGEST_KEY} characters"
        raise ApiError(400, message, "invalid_idempotency_key")
    return KeyedCall(request.app.state.store, caller.name, sent[0])


def digest_of(*asked: str) -> str:
    """A digest of what a call asks for, beginning with its method and path."""
    return hashlib.blake2b("\0".join(asked).encode(errors="surrogatepass"), digest_size=32).hexdigest()
