"""Judges defined by templates: the authors' prompt, cut out of the file that they published, and their own form of answer."""
