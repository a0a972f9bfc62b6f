"""Logs of other evaluation harnesses as rows: inspect_ai, lm-evaluation-harness, promptfoo and deepeval.

A log is known by its shape, not by its name. Every form becomes the same fields (``answered``), so that any judge reads any log.
"""
