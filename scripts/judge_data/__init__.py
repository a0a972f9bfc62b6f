"""Makes the rows that the embedded judge is trained on, from data whose scores are known by how they were made."""
