"""Text of anyone's, made safe to look at."""

from __future__ import annotations

import re

from markupsafe import Markup

# What does not show, or makes other text show in another order than it stands in. Right-to-left text needs none of it on a page
# that has each text in an element of its own direction.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_END = re.compile("\r\n?|[\u2028\u2029]")


def plain(value: object) -> object:
    """A text with a sign for each character that would hide or reorder something; anything else, and markup, as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _LINE_END.sub("\n", value))
