"""Measures of what a model answers."""
