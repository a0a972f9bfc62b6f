"""Tasks: what a data set's rows mean, told in a file, and how rows and predictions are read."""

from evals.data.tasks.instances import Dataset, Fault, Instance, Predictions, add_fault, read_dataset, read_predictions
from evals.data.tasks.task import Task, task_names

__all__ = ["Dataset", "Fault", "Instance", "Predictions", "Task", "add_fault", "read_dataset", "read_predictions", "task_names"]
