"""The arena: models' answers compared two by two, and what that says about the models and about the judge."""
