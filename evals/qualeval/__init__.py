"""QualEval: what a data set consists of, where a model is weak in it, and what shows it.

Source: Murahari et al., "QualEval", https://arxiv.org/abs/2311.02807.
"""

from evals.qualeval.options import Options
from evals.qualeval.study import Study, run_study

__all__ = ["Options", "Study", "run_study"]
