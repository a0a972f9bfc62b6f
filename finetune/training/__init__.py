"""Training an adapter: recipe, model, trainer, checkpoints, and the result."""
