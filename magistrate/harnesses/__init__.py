"""Our judges inside other evaluation harnesses: a scorer of inspect_ai, metrics of lm-evaluation-harness."""
