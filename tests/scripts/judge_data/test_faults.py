import random

import pytest

from scripts.judge_data.faults import QUALITIES, Draft, Faults, drafts
from scripts.judge_data.sources import Dialogue

DIALOGUE = Dialogue(
    (
        "Ann: The car broke down again on Monday.", "Ben: Then sell it and buy a bike.", "Ann: It costs 300 dollars to repair!",
        "Ben: I can lend you my bike for a week.",
    ),
    "Ann's car broke down on Monday. Ben suggests buying a bike because repairs cost 300 dollars. Ben will lend Ann a bike.",
    "a broken car",
)  # fmt: skip
NEAR = Dialogue(
    ("Ann: Hi.", "Ben: Hello."), "Ann asks Ben to repair the bus. They meet in the garage before they go home.", "a bus"
)
FAR = Dialogue(("Ann: Hi.", "Ben: Hello."), "Ben cooks soup for Ann.", "soup")
HUMAN = Draft(DIALOGUE.summary, dict.fromkeys(QUALITIES, 1.0))


@pytest.mark.parametrize(
    ("fault", "worst", "untouched"),
    [
        ("facts", "consistency", "fluency"), ("roles", "consistency", "fluency"), ("dropped", "relevance", "consistency"),
        ("invented", "consistency", "fluency"), ("trivial", "relevance", "consistency"), ("other", "consistency", "fluency"),
        ("lead", "coherence", None), ("vague", "relevance", "consistency"), ("broken", "fluency", None),
        ("shuffled", "coherence", "consistency"), ("repeated", "coherence", "consistency"), ("glued", "coherence", None),
        ("cut", "fluency", "consistency"),
    ],
)  # fmt: skip
def test_a_fault_lowers_its_own_quality(fault: str, worst: str, untouched: str | None) -> None:
    for seed in range(40):
        made = getattr(Faults(DIALOGUE, NEAR, FAR, ("Ann", "Ben"), random.Random(seed)), fault)(HUMAN)
        assert made.text != HUMAN.text
        assert made.quality[worst] < 1
        assert all(0 <= value <= 1 for value in made.quality.values())
        assert untouched is None or made.quality[untouched] == 1


def test_more_wrong_facts_are_less_consistent() -> None:
    made = [Faults(DIALOGUE, NEAR, FAR, ("Ann", "Ben"), random.Random(seed)).facts(HUMAN) for seed in range(60)]
    by_count = {draft.why: draft.quality["consistency"] for draft in made if draft}
    assert by_count["A fact contradicts the dialogue."] > by_count["2 facts contradict the dialogue."]


def test_a_group_has_the_human_summary_and_no_text_twice() -> None:
    for seed in range(20):
        made = drafts(Faults(DIALOGUE, NEAR, FAR, ("Ann", "Ben"), random.Random(seed)), 5)
        assert made[0] == HUMAN
        assert len({draft.text for draft in made}) == len(made) == 6
