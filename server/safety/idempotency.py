"""Calls with an ``Idempotency-Key``: a repeated call gets the first one's answer and has no second effect."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from server.errors import ApiError
from server.safety.callers import Caller
from server.safety.middleware import header_values
from server.store import Answer, Store

LONGEST_KEY = 255
"""Characters."""


@dataclass(frozen=True, slots=True)
class KeyedCall:
    """A call with an idempotency key.

    Attributes:
        store: Keeps answers.
        owner: The caller's name.
        key: The caller's name for the call.
    """

    store: Store
    owner: str
    key: str

    async def was_answered(self) -> bool:
        """Check whether an earlier call with this key was answered."""
        return await asyncio.to_thread(self.store.answer, self.owner, self.key) is not None

    async def first_answer(self, digest: str) -> Response:
        """Repeat the answer to the first call with this key.

        Raises:
            ApiError: 400: the first call was another request.
        """
        answer = await asyncio.to_thread(self.store.answer, self.owner, self.key)
        if answer is None or answer.digest != digest:
            message = "this `Idempotency-Key` was used for another request: use a new key for each request"
            raise ApiError(400, message, "idempotency_key_reused")
        return Response(answer.text, media_type="application/json", headers={"idempotent-replayed": "true"})

    def answer(self, digest: str, shown: BaseModel) -> Answer:
        """Make the answer that the store keeps."""
        return Answer(self.key, digest, shown.model_dump_json())


def keyed_call(request: Request, caller: Caller) -> KeyedCall | None:
    """Read a call's idempotency key; ``None`` if it has none.

    Raises:
        ApiError: 400: it has several, or one that is empty or too long.
    """
    sent = header_values(request.scope, b"idempotency-key")
    if not sent:
        return None
    if len(sent) > 1 or not 0 < len(sent[0]) <= LONGEST_KEY:
        message = f"the `Idempotency-Key` header must come once, and have 1 to {LONGEST_KEY} characters"
        raise ApiError(400, message, "invalid_idempotency_key")
    return KeyedCall(request.app.state.store, caller.name, sent[0])


def digest_of(*parts: str) -> str:
    """Digest a request: its method and path, then whatever else determines its effect."""
    return hashlib.blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=32).hexdigest()
