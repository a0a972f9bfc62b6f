"""Fine-tuning where a model is weak: choose the data, train an adapter, evaluate it, compare."""
