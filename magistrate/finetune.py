"""Fine-tuning from Python: recipes, rows and the training of an adapter, as ``magistrate finetune`` does it."""

from judges.extras import naming_extras

with naming_extras():
    from finetune.data.conversations import Conversation, Rejected, read_conversations
    from finetune.experiments.improve import Loop, improve
    from finetune.training.merging import base_of, merge
    from finetune.training.model import load_tokenizer, locate
    from finetune.training.recipe import Recipe
    from finetune.training.sweep import Sweep, sweep
    from finetune.training.train import Data

__all__ = [
    "Conversation",
    "Data",
    "Loop",
    "Recipe",
    "Rejected",
    "Sweep",
    "base_of",
    "improve",
    "load_tokenizer",
    "locate",
    "merge",
    "read_conversations",
    "sweep",
]
