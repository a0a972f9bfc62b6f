"""Charts: how they look, how they are drawn, and the kinds that studies share."""
