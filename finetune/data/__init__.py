"""Rows to train on: read, chosen, encoded and packed."""
