"""Data sets, answers, comparisons and ratings, in the forms in which they are published."""
