"""Templates of the tests' own, which need no file of anybody else."""

from typing import Any

from judges.templates.judge import TemplateJudge
from judges.templates.shipped import read_template

RATING = """
name = "tea-rating"
summary = "how well an answer fits"
article = "the tests"
max_tokens = 24
score = "score"
justification = "feedback"

[texts]
ask = { text = "Rate {what} by this:\\n{rubric}\\nIt says: {said}" }
rubric = { text = "[{criterion}]\\n1: {criterion.1}\\n3: {criterion.3}" }

[values]
what = "question"
said = "answer"

[[prompt]]
when = ["reference_answer"]
system = "You are fair."
user = "{ask}\\nBest would be: {reference_answer}"

[[prompt]]
system = "You are fair."
user = "{ask}"

[answer]
pattern = "Feedback: {feedback} [RESULT] {score}"
parts = { feedback = "text", score = "1-3" }
"""

CRITERIA = """
[[metric]]
name = "fits"
description = "Does it fit?"
scale = "1-3"
levels = { 1 = "not at all", 2 = "half", 3 = "wholly" }
"""

LABELS = """
name = "tea-labels"
summary = "which answer is better"
article = "the tests"
max_tokens = 24
justification = "why"

[[prompt]]
user = "{question}\\n1: {answer_a}\\n2: {answer_b}"

[answer]
pattern = "{why}So it is {choice}."
parts = { why = "text", choice = ["Response 1", "Response 2", "Tie"] }

[compare]
choice = "choice"
first = "Response 1"
second = "Response 2"
tie = "Tie"
"""

SCORES = """
name = "tea-scores"
summary = "two answers from 1 to 10"
article = "the tests"
max_tokens = 24
justification = "why"

[[prompt]]
plain = "{question}\\n1: {answer_a}\\n2: {answer_b}\\n### Scores:"
answer_start = " I say "

[answer]
pattern = "{first} {second}\\n{why}"
parts = { first = "1-10", second = "1-10", why = "text" }

[compare]
first = "first"
second = "second"
"""

PAIR = {"question": "How do I brew tea?", "answer_a": "With hot water, for three minutes.", "answer_b": "Cold."}
SINGLE = {"question": "How do I brew tea?", "answer": "With hot water, for three minutes."}


def opened(text: str, **options: Any) -> TemplateJudge:
    return read_template(text, ".toml")(**options)
