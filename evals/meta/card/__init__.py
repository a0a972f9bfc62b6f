"""A judge's reliability card: what it does when nothing that matters changes, and when everything does."""
