"""How far a judge goes with people: correlations of scores, and agreement on which answer is better."""
