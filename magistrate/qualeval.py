"""QualEval from Python: tasks, data sets, predictions and the study of them, as ``magistrate qualeval run`` makes it."""

from judges.extras import naming_extras

with naming_extras():
    from evals.data.tasks import Dataset, Predictions, Task, read_dataset, read_predictions
    from evals.metrics.catalog import open_metric
    from evals.qualeval import Options, Study, run_study
    from evals.qualeval.attributes import read_given
    from evals.qualeval.report import write

__all__ = [
    "Dataset",
    "Options",
    "Predictions",
    "Study",
    "Task",
    "open_metric",
    "read_dataset",
    "read_given",
    "read_predictions",
    "run_study",
    "write",
]
