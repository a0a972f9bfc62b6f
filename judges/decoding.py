"""How answers are written: the settings of decoding, each declared here once.

A field of ``Decoding`` is a flag of every command that judges, a field of the HTTP API and of a jury's member, and a part of the
fingerprint and of the key under which a server keeps a runner. All of them are made from its declaration.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

MOST_THOUGHT = 131_072
"""Tokens that a model may think for: the longest contexts there are."""


class Decoding(BaseModel):
    """Greedy decoding, which takes the likeliest token each time: the way to make verdicts to go by.

    Attributes:
        expected: Whether to add the mean of the legal scores under the model, and its entropy in nats, to each greedy score.
        think: Tokens that a model which thinks before it answers may think for; 0 for a model that does not. It thinks freely, up
            to ``</think>``, and answers under the constraint.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    expected: StrictBool = Field(False, description="Add each score's expectation and entropy under the model.")
    think: StrictInt = Field(0, ge=0, le=MOST_THOUGHT, description="Tokens a model that thinks first may think for.")

    def as_fields(self) -> dict[str, Any]:
        """The settings as a fingerprint has them.

        One that is added later is left out at its default, so that verdicts made before it keep their fingerprint.
        """
        return {"temperature": 0, "expected": False, "think": 0} | self.model_dump(exclude_defaults=True)


class SampledDecoding(Decoding):
    """Sampled answers, by which a judge is studied. Their expected scores would say nothing of them, so there are none.

    Attributes:
        temperature: Divides the logits before a token is drawn.
        seed: Decides every draw. Each request has a seed of its own that follows from this one, from its sample and its place.
    """

    temperature: float = Field(gt=0)
    seed: StrictInt = Field(ge=0)


GREEDY = Decoding()
