"""Texts of the examples that several judges show."""

QUESTION = "How do I keep basil fresh for a week?"
GOOD = "Stand the stems in a glass of water at room temperature and cover the leaves loosely with a bag."

ANSWERED = {"question": QUESTION, "answer": GOOD}
COMPARED = {"question": QUESTION, "answer_a": GOOD, "answer_b": "Put it in the fridge."}
