"""The groups in which the API's page lists the calls."""

from __future__ import annotations

from enum import StrEnum


class Tag(StrEnum):
    """A group of calls, by its heading."""

    JUDGE = "Judge now"
    COMPLETE = "Chat and complete text"
    CATALOG = "Which judges there are"
    MODELS = "Models and adapters"
    FILES = "Files of batches"
    BATCHES = "Judge in batches"
    ASSIGN = "Assign attributes"
    OPERATE = "Watch the server"


DESCRIPTIONS = {
    Tag.JUDGE: "Samples in, verdicts out, while you wait.",
    Tag.COMPLETE: "OpenAI's chat completions, text completions and responses: what other tools ask.",
    Tag.CATALOG: "What each judge asks, needs and answers, with a request that works as it stands.",
    Tag.MODELS: "What this server hosts, and LoRA adapters to load beside it.",
    Tag.FILES: "OpenAI's files: the input of a batch, and its output as it grows.",
    Tag.BATCHES: "OpenAI's batches, which survive a restart: create, watch, cancel.",
    Tag.ASSIGN: "Gives each row its attributes at a proven optimum; asks no model.",
    Tag.OPERATE: "Whether it is alive and ready, and its metrics.",
}
"""What each group is for, in the order of the page."""
