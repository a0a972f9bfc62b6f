"""What judges of classification heads show, and how they read logits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest

from judges import catalog
from judges.errors import AnswerError, MagistrateError, SampleError
from judges.head_form import HeadForm, Interval
from judges.orders import compares
from judges.reward import Groundedness, Reward, RewardPairwise, logistic
from judges.verdict import Verdict, fault_in

ASKED = {"question": "What is 2 + 2?", "answer": "4"}


def turns(judge: Reward | RewardPairwise | Groundedness, sample: Mapping[str, object]) -> list[list[tuple[str, str]]]:
    return [[(message.role, message.content) for message in prompt.messages] for prompt in judge.render(sample).prompts]


def test_a_conversation_is_shown_as_it_took_place() -> None:
    assert turns(Reward(), ASKED) == [[("user", "What is 2 + 2?"), ("assistant", "4")]]
    several = {"question": ["Hi", "How are you?"], "answer": ["Hello", "Fine"]}
    assert turns(Reward(), several) == [[("user", "Hi"), ("assistant", "Hello"), ("user", "How are you?"), ("assistant", "Fine")]]
    pair = {"question": "Hi", "answer_a": "Hello", "answer_b": "What?"}
    assert turns(RewardPairwise(), pair) == [[("user", "Hi"), ("assistant", "Hello")], [("user", "Hi"), ("assistant", "What?")]]
    with pytest.raises(SampleError, match="field `answer` has 1 turn, and the question has 2"):
        Reward().render({"question": ["a", "b"], "answer": "c"})


def test_a_reward_is_the_heads_number() -> None:
    assert Reward().read('{"LABEL_0": -3.25}').scores == {"reward": -3.25}
    assert Reward(label="helpful").read('{"polite": 1.0, "helpful": 2.5}').scores == {"reward": 2.5}
    with pytest.raises(AnswerError, match="gives no number"):
        Reward().read('{"LABEL_0": NaN}')


def test_two_rewards_make_a_preference_with_bradley_and_terrys_probability() -> None:
    judge = RewardPairwise()
    read = judge.read('{"LABEL_0": 23.0}', '{"LABEL_0": 3.59375}')
    assert read.scores == {"preference": "A"}
    assert read.detail is not None
    assert read.detail["rewards"] == {"A": 23.0, "B": 3.59375}
    odds = math.exp(23.0 - 3.59375)
    assert read.detail["probabilities"]["A"] == pytest.approx(odds / (1 + odds), abs=1e-12)
    assert read.detail["probabilities"]["B"] == pytest.approx(1 / (1 + odds), rel=1e-9)
    assert judge.read('{"x": 1.0}', '{"x": 2.0}').scores == {"preference": "B"}
    assert judge.read('{"x": 1.0}', '{"x": 1.0}').scores == {"preference": "both"}
    assert logistic(-800) == 0
    assert logistic(800) == 1


def test_groundedness_is_the_probability_of_the_models_own_label() -> None:
    read = Groundedness().read(json.dumps({"contradiction": 0.0, "neutral": 0.0, "ENTAILMENT": math.log(2)}))
    assert read.scores == {"label": "ENTAILMENT", "grounded": pytest.approx(0.5)}
    assert read.detail is not None
    assert sum(read.detail["probabilities"].values()) == pytest.approx(1)
    assert Groundedness(label="LABEL_1").read('{"LABEL_0": 1.0, "LABEL_1": 1.0}').scores["grounded"] == pytest.approx(0.5)


def test_a_head_without_the_label_is_refused() -> None:
    HeadForm().check("m", ["LABEL_0"])
    with pytest.raises(MagistrateError, match="m: the classification head has the labels `a`, `b`; say which"):
        HeadForm().check("m", ["a", "b"])
    with pytest.raises(MagistrateError, match="has no label `c`; it has `a`, `b`"):
        Reward(label="c").form.check("m", ["a", "b"])
    with pytest.raises(MagistrateError, match="say which is read by `-O label=`"):
        Groundedness().form.check("m", ["LABEL_0", "LABEL_1"])
    with pytest.raises(MagistrateError, match="one label, `LABEL_0`, so its logit is no probability"):
        Groundedness(label="LABEL_0").form.check("m", ["LABEL_0"])


def test_which_judges_compare() -> None:
    names = [name for name in catalog.JUDGES if name not in ("affinity",) and compares(catalog.open_judge(name))]
    assert names == ["pairwise", "reward-pairwise"]
    with pytest.raises(MagistrateError, match="judge `reward` does not prefer one of two answers"):
        catalog.open_comparing("reward", {})


def test_legal_scores_are_real_numbers() -> None:
    def verdict(judge: str, **scores: float | str) -> Verdict:
        return Verdict(id="1", judge=judge, status="scored", scores=scores, sample="s", fingerprint="f")

    assert fault_in(verdict("reward", reward=-1e30), Reward()) is None
    assert fault_in(verdict("reward", reward="high"), Reward()) == (
        'field `scores.reward` is "high", but judge `reward` scores any number'
    )
    assert fault_in(verdict("groundedness", label="x", grounded=1.5), Groundedness()) == (
        "field `scores.grounded` is 1.5, but judge `groundedness` scores any number from 0 to 1"
    )
    assert 0.5 in Interval(0, 1)
    assert math.nan not in Interval()


def test_the_label_is_part_of_the_version() -> None:
    assert Reward().version != Reward(label="helpful").version
    assert len({judge.version for judge in (Reward(), RewardPairwise(), Groundedness())}) == 3
