"""Decoding settings, each declared here once.

Each field of ``Decoding`` becomes a flag of every command that judges, a field of the HTTP API and of a jury's member, and a part
of the fingerprint and of the key under which a server caches a runner.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from judges.options import Settings

MOST_THOUGHT = 131_072
"""Maximum length of a thought, in tokens: that of the longest contexts."""


class Decoding(Settings):
    """Greedy decoding, which takes the likeliest token each time: the decoding for verdicts to rely on.

    Attributes:
        expected: Whether to add the mean of the legal scores under the model, and its entropy in nats, to each greedy score.
        think: Tokens that a model which thinks before it answers may think for; 0 for a model that does not. The thought is
            unconstrained, up to ``</think>``; the answer is constrained.
    """

    expected: StrictBool = Field(False, description="Add each score's expectation and entropy under the model.")
    think: StrictInt = Field(0, ge=0, le=MOST_THOUGHT, description="Tokens a model that thinks first may think for.")

    def as_fields(self) -> dict[str, Any]:
        """The settings as part of a fingerprint.

        A setting added later is omitted at its default, so that earlier verdicts keep their fingerprint.
        """
        return {"temperature": 0, "expected": False, "think": 0} | self.model_dump(exclude_defaults=True)


class SampledDecoding(Decoding):
    """Sampled decoding, for studies of a judge. It has no expected scores, which describe greedy answers only.

    Attributes:
        temperature: Divides the logits before a token is drawn.
        seed: Determines every draw: each request's seed is derived from this one, its sample and its position.
    """

    temperature: float = Field(gt=0)
    seed: StrictInt = Field(ge=0)


GREEDY = Decoding()
