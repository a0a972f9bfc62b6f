"""Experiments: whether training on the weakest domains helps, and what it brought."""
