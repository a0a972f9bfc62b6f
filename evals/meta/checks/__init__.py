"""What to do about a judge's verdicts: compare two systems by them, pick those to check by hand, or do without annotators."""
