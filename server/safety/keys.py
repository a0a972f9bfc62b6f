"""Keys: how they read, and whether one opens the server.

A key reads ``mag_<id>_<secret>``. The id finds the key; it is no secret. What is kept of the secret is its SHA-256 digest. A slow
hash such as Argon2 makes up for passwords that can be guessed; 256 random bits cannot, so a slow hash would only cost time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.store import Key

PREFIX = "mag_"
KEY_PATTERN = re.compile(r"mag_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
NOTHING_DIGEST = hashlib.sha256(b"").hexdigest()
"""Compared with where there is no such key, so that an unknown id takes as long as a wrong secret. No secret is empty."""


def make_key() -> tuple[str, str, str]:
    """A new key: its id, its text, which is shown once, and the digest of its secret, which is kept."""
    key_id = secrets.token_hex(6)
    secret = secrets.token_urlsafe(32)
    return key_id, f"{PREFIX}{key_id}_{secret}", _digest(secret)


def parse(text: str) -> tuple[str, str] | None:
    """The id and the secret of a key's text; ``None`` where it does not read like a key."""
    found = KEY_PATTERN.fullmatch(text)
    return (found[1], found[2]) if found else None


def opens(text: str, key: Key | None) -> bool:
    """Whether a text is the key that was found under its id and has not been revoked.

    Args:
        text: What the caller sent.
        key: What is kept under the text's id; ``None`` where nothing is.
    """
    parsed = parse(text)
    secret = parsed[1] if parsed else ""
    right = hmac.compare_digest(_digest(secret), key.digest if key else NOTHING_DIGEST)
    return right and parsed is not None and key is not None and key.id == parsed[0] and key.revoked_at is None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
