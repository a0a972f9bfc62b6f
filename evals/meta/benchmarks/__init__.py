"""Published benchmarks of judges: how their files look, their own scoring rules, and what known judges reach by them.

What a benchmark declares stands in a TOML file of its name, its rule in ``rules.py`` or ``best_of.py``.
"""
