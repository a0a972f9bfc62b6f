"""Evaluation of models: programs they write are run, and what they answer is measured."""
