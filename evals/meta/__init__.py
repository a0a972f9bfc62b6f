"""The judge judged: by people's labels, what its scores are worth and what they say when corrected."""
