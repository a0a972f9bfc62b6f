import statistics
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.agreement import MetricAgreement
from judges.engines.engine import Usage
from judges.errors import MagistrateError
from judges.judge import MeasurementLevel, Score
from judges.jury import TIE, Combine, Jury, Member, Vote, decide
from judges.verdict import Verdict

RULES: tuple[Combine, ...] = get_args(Combine)
MEMBERS = [Member("ann"), Member("bob"), Member("cat")]
LEVELS: Mapping[str, MeasurementLevel] = {"quality": "interval"}

whole_scores = st.lists(st.integers(-3, 5), min_size=1, max_size=7)
any_scores = st.lists(st.none() | st.integers(0, 3) | st.sampled_from(["good", "bad"]), min_size=1, max_size=7)


def verdict(scores: Mapping[str, Score] | None, reason: str | None = None, **fields: Any) -> Verdict:
    stated: dict[str, Any] = {
        "id": "7",
        "judge": "j",
        "status": "unscored" if scores is None else "scored",
        "reason": reason,
        "scores": scores,
        "expected": None,
        "justification": None,
        "recovered": False,
        "notes": [],
        "sample": "5a",
        "fingerprint": "f0",
        "usage": Usage(10, 4, 2),
    }
    return Verdict(**(stated | fields))


def judge(*qualities: Score) -> dict[str, Verdict | None]:
    return {member.name: verdict({"quality": quality}) for member, quality in zip(MEMBERS, qualities, strict=True)}


def jury(combine: Combine = "mean", members: Sequence[Member] = MEMBERS, levels: Mapping[str, MeasurementLevel] = LEVELS) -> Jury:
    return Jury(combine, members, levels)


def equal(scores: Sequence[Score], weight: float = 1.0) -> list[Vote]:
    return [(score, weight) for score in scores]


@pytest.mark.parametrize(
    ("combine", "votes", "score"),
    [
        ("mean", [(1, 1), (2, 1), (5, 2)], 3.25),
        ("mean", [(2, 1), (4, 1)], 3.0),
        ("mean", [(0.1, 1), (0.2, 1), (0.3, 1)], 0.2),
        ("mean", [(2, 0.1), (-1, 0.2)], 0.0),
        ("mean", [(1, 1), (2, 1), (2, 1)], 1.66666666667),
        ("mean", [(1_000_001, 1), (1_000_002, 1)], 1_000_001.5),
        ("median", [(1, 1), (2, 1), (5, 1)], 2.0),
        ("median", [(1, 1), (2, 1), (5, 2)], 3.5),
        ("median", [(1, 1), (2, 1), (5, 2.1)], 5.0),
        ("median", [(1, 0.1), (2, 0.2), (5, 0.3)], 3.5),
        ("median", [(0.1, 1), (0.2, 1)], 0.15),
        ("majority", [(1, 1), (2, 1), (2, 1)], 2),
        ("majority", [(1, 3), (2, 1), (2, 1)], 1),
        ("majority", [(1, 1), (3, 1), (3.0, 1)], 3),
    ],
)
def test_numbers_are_combined_by_the_rule(combine: Combine, votes: list[Vote], score: float) -> None:
    found, tied = decide(votes, combine)
    assert (found, tied) == (score, False)
    assert combine == "majority" or isinstance(found, float)


@pytest.mark.parametrize("votes", [equal([1, 2, 3]), equal([1, 1, 4, 4, 9]), [(1, 0.1), (1, 0.2), (2, 0.3)]])
def test_numbers_of_equal_weight_tie_by_majority(votes: list[Vote]) -> None:
    assert decide(votes, "majority") == (TIE, True)


@pytest.mark.parametrize("combine", RULES)
def test_labels_go_by_majority_of_weight_whatever_the_rule(combine: Combine) -> None:
    assert decide(equal(["good", "bad", "good"]), combine) == ("good", False)
    assert decide([("good", 1), ("bad", 2.5), ("good", 1)], combine) == ("bad", False)
    assert decide([("good", 1), ("bad", 2), ("good", 1)], combine) == (TIE, True)
    assert decide(equal(["good", 3, 3]), combine) == (3, False)


def test_a_judges_own_label_tie_is_no_tie_of_the_jury() -> None:
    assert decide(equal(["tie", "a", "tie"]), "majority") == ("tie", False)


@pytest.mark.parametrize("combine", RULES)
def test_whether_a_metric_applies_is_decided_first(combine: Combine) -> None:
    assert decide(equal([None, None, 4]), combine) == (None, False)
    assert decide(equal([None, 4, 4]), combine) == (4, False)
    assert decide([(None, 1), (None, 1), (4, 2)], combine) == (TIE, True)
    assert decide([(None, 0.1), (None, 0.2), ("bad", 0.3)], combine) == (TIE, True)
    assert decide([(None, 1), (None, 1), (4, 2.01)], combine) == (4, False)


def test_null_is_not_a_number_in_a_mean() -> None:
    assert decide(equal([None, 2, 5]), "mean") == (3.5, False)


@settings(deadline=None)
@given(scores=whole_scores)
def test_equal_weights_are_no_weights(scores: list[int]) -> None:
    assert decide(equal(scores), "mean")[0] == pytest.approx(statistics.fmean(scores), abs=1e-10)
    assert decide(equal(scores), "median")[0] == statistics.median(scores)
    modes = statistics.multimode(scores)
    assert decide(equal(scores), "majority") == ((modes[0], False) if len(modes) == 1 else (TIE, True))


@pytest.mark.parametrize("combine", RULES)
@settings(deadline=None)
@given(data=st.data(), scores=any_scores, scale=st.floats(1e-6, 1e6))
def test_only_the_ratios_of_weights_matter(combine: Combine, data: st.DataObject, scores: list[Score], scale: float) -> None:
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(scores), max_size=len(scores)))
    votes = list(zip(scores, weights, strict=True))
    plain, tied = decide(votes, combine)
    scaled, still_tied = decide([(score, weight * scale) for score, weight in votes], combine)
    assert tied == still_tied
    assert scaled == (pytest.approx(plain, abs=1e-10) if isinstance(plain, float) else plain)


@pytest.mark.parametrize("combine", RULES)
@settings(deadline=None)
@given(data=st.data(), scores=any_scores)
def test_a_weight_counts_as_that_many_members(combine: Combine, data: st.DataObject, scores: list[Score]) -> None:
    weights = data.draw(st.lists(st.integers(1, 4), min_size=len(scores), max_size=len(scores)))
    votes: list[Vote] = list(zip(scores, weights, strict=True))
    repeated = [score for score, weight in zip(scores, weights, strict=True) for _ in range(weight)]
    plain, tied = decide(votes, combine)
    assert decide(equal(repeated), combine) == (pytest.approx(plain, abs=1e-10) if isinstance(plain, float) else plain, tied)


@pytest.mark.parametrize("combine", RULES)
@settings(deadline=None)
@given(score=st.none() | st.text() | st.integers(-9, 9) | st.integers(-999, 999).map(lambda cents: cents / 100), data=st.data())
def test_a_unanimous_jury_gives_the_unanimous_score(combine: Combine, score: Score, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=7))
    assert decide([(score, weight) for weight in weights], combine) == (score, False)


@pytest.mark.parametrize("combine", RULES)
@settings(deadline=None)
@given(data=st.data(), weights=st.permutations([1.0, 2.0, 0.5]), order=st.permutations([0, 1, 2]))
def test_the_order_of_members_changes_nothing(
    combine: Combine, data: st.DataObject, weights: list[float], order: list[int]
) -> None:
    given_scores = data.draw(st.lists(st.none() | st.integers(0, 3) | st.just("bad"), min_size=3, max_size=3))
    members = [Member(member.name, weight) for member, weight in zip(MEMBERS, weights, strict=True)]
    verdicts = judge(*given_scores)
    nominal: Mapping[str, MeasurementLevel] = {"quality": "nominal"}
    one, other = jury(combine, members, nominal), jury(combine, [members[place] for place in order], nominal)
    turned = {members[place].name: verdicts[members[place].name] for place in order}
    assert one.deliberate(verdicts) == other.deliberate(turned)
    assert one.agreement() == other.agreement()


def test_the_jurys_verdict_has_every_field() -> None:
    verdicts = {
        "ann": verdict({"quality": 4, "tone": "warm"}, justification="Clear.", fingerprint="fa"),
        "bob": verdict({"quality": 1, "tone": "cold"}, recovered=True, fingerprint="fb"),
        "cat": verdict({"quality": 1, "tone": None}, fingerprint="fc", usage=Usage(1, 1, 1)),
    }
    found = jury().deliberate(verdicts)
    assert (found.id, found.judge, found.status, found.reason) == ("7", "jury", "scored", None)
    assert found.scores == {"quality": 2.0, "tone": TIE}
    assert (found.expected, found.justification, found.recovered, found.notes) == (None, None, True, [])
    assert found.usage == Usage(21, 9, 5)
    assert (len(found.sample), len(found.fingerprint)) == (32, 16)
    assert found.detail is not None
    assert found.detail["ties"] == ["tone"]
    assert found.detail["members"]["ann"] == {
        "status": "scored",
        "scores": {"quality": 4, "tone": "warm"},
        "reason": None,
        "justification": "Clear.",
        "fingerprint": "fa",
    }
    assert Verdict.from_json(found.to_json()) == found


def test_no_tie_is_an_empty_list() -> None:
    found = jury().deliberate(judge(1, 2, 3))
    assert found.detail is not None
    assert found.detail["ties"] == []


def test_a_member_without_a_say_is_left_out_and_named() -> None:
    verdicts = judge(5, 1, 2) | {"ann": verdict(None, "bad answer: it ends early"), "cat": None}
    found = jury().deliberate(verdicts, {"cat": "the model is not on this machine"})
    assert found.scores == {"quality": 1.0}
    assert found.notes == [
        "member ann is unscored: bad answer: it ends early",
        "member cat failed: the model is not on this machine",
    ]
    assert found.usage == Usage(20, 8, 4)
    assert found.detail is not None
    kept = found.detail["members"]
    assert (kept["ann"]["status"], kept["ann"]["scores"], kept["ann"]["reason"]) == (
        "unscored",
        None,
        "bad answer: it ends early",
    )
    assert (kept["cat"]["status"], kept["cat"]["reason"]) == ("failed", "the model is not on this machine")
    assert kept["cat"]["fingerprint"] is None


def test_where_no_member_scored_the_jury_is_unscored() -> None:
    verdicts: dict[str, Verdict | None] = {name: verdict(None, f"bad answer: {name}'s") for name in ("ann", "bob", "cat")}
    found = jury().deliberate(verdicts)
    assert (found.status, found.scores, found.notes) == ("unscored", None, [])
    assert found.reason == (
        "no member scored: member ann is unscored: bad answer: ann's; member bob is unscored: bad answer: bob's; "
        "member cat is unscored: bad answer: cat's"
    )
    assert found.final
    assert found.detail is not None
    assert found.detail["ties"] == []


@pytest.mark.parametrize("other", [None, verdict(None, "engine error: HTTP 500")])
def test_a_resumed_run_asks_again_where_a_member_may_yet_score(other: Verdict | None) -> None:
    bad = verdict(None, "bad answer: it ends early")
    found = jury().deliberate({"ann": bad, "bob": bad, "cat": other})
    assert not found.final
    assert "member cat" in (found.reason or "")


def test_a_metric_of_some_members_is_combined_from_those() -> None:
    verdicts = {"ann": verdict({"quality": 4}), "bob": verdict({"quality": 2, "tone": 5}), "cat": verdict({"tone": None})}
    found = jury("mean", [Member("ann"), Member("bob", 2), Member("cat")]).deliberate(verdicts)
    assert found.scores == {"quality": pytest.approx(8 / 3), "tone": 5.0}


def test_the_fingerprint_is_of_the_rule_and_the_members_and_not_of_the_sample() -> None:
    def fingerprint(combine: Combine = "mean", weight: float = 1, of_bob: str = "f0", **fields: Any) -> str:
        verdicts = judge(1, 2, 3) | {"bob": verdict({"quality": 2}, fingerprint=of_bob)}
        sample = {name: verdict(each.scores, fingerprint=each.fingerprint, **fields) for name, each in verdicts.items() if each}
        return jury(combine, [Member("ann", weight), *MEMBERS[1:]]).deliberate(sample).fingerprint

    base = fingerprint()
    assert fingerprint(id="8", sample="5b") == base
    assert fingerprint(weight=1.0) == base
    assert len({base, fingerprint("median"), fingerprint(weight=2), fingerprint(of_bob="f1")}) == 4
    absent = [jury().deliberate(judge(1, 2, 3) | {name: None}).fingerprint for name in ("ann", "bob")]
    assert len({base, *absent}) == 3


def test_the_sample_is_of_what_the_members_were_shown() -> None:
    shown = jury().deliberate(judge(1, 2, 3)).sample
    assert jury("median").deliberate(judge(3, 3, 3)).sample == shown
    assert jury().deliberate(judge(1, 2, 3) | {"cat": verdict({"quality": 3}, sample="5b")}).sample != shown


def test_verdicts_of_different_samples_are_refused() -> None:
    with pytest.raises(MagistrateError, match="different samples: 7, 8"):
        jury().deliberate(judge(1, 2, 3) | {"bob": verdict({"quality": 1}, id="8")})


def test_a_sample_that_every_member_failed_has_no_verdict() -> None:
    with pytest.raises(
        MagistrateError, match="no member of the jury has a verdict: member ann failed: no GPU; member bob failed;"
    ):
        jury().deliberate({"ann": None, "bob": None, "cat": None}, {"ann": "no GPU"})


def test_every_member_has_a_place_and_nobody_else() -> None:
    with pytest.raises(MagistrateError, match="not the case for cat, dan"):
        jury().deliberate({"ann": None, "bob": None, "dan": None})


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_is_positive_and_finite(weight: float) -> None:
    with pytest.raises(MagistrateError, match="member ann has weight"):
        Member("ann", weight)


@pytest.mark.parametrize(
    ("combine", "members", "words"),
    [
        ("mean", [Member("ann")], "at least two members, but this one has 1"),
        ("mean", [Member("ann"), Member("bob"), Member("ann", 2)], "two members of the jury are called ann"),
        ("mode", MEMBERS, "rule is 'mode', but it can only be mean, median, majority"),
        ("mean", [Member("ann", 1e308), Member("bob", 1e308)], "weights add up to more"),
    ],
)
def test_a_jury_that_cannot_sit_says_why(combine: Any, members: list[Member], words: str) -> None:
    with pytest.raises(MagistrateError, match=words):
        jury(combine, members)


def test_agreement_is_of_the_members_scores_on_the_metrics_own_level() -> None:
    sitting = jury("median", levels={"quality": "interval"})
    for qualities in ([1, 1, 2], [None, None, 5], [5, None, 5], [3, 3, 3]):
        sitting.deliberate(judge(*qualities))
    sitting.deliberate(judge(1, 5, 4) | {"ann": None, "bob": verdict(None, "bad answer: x")})
    found = sitting.agreement()["quality"]
    # 1 1 2, 5 5 and 3 3 3 pair up. Within them two pairs are 1 apart, each over 2; all pairs together are the count squared times
    # the variance.
    values = [1, 1, 2, 5, 5, 3, 3, 3]
    assert found.alpha == pytest.approx(1 - 7 * 1 / (8 * 8 * statistics.pvariance(values)))
    assert (found.level, found.units) == ("interval", 3)
    # 12 answers, 9 of them "applies"; both mixed samples have two disagreeing pairs, each over 2.
    assert found.applicability_alpha == pytest.approx(1 - 11 * 2 / (9 * 3))


def test_a_tie_of_the_jury_is_no_disagreement_of_its_own() -> None:
    sitting = jury("majority", levels={"quality": "nominal"})
    sitting.deliberate(judge("a", "b", "c"))
    sitting.deliberate(judge("a", "a", "a"))
    assert sitting.agreement()["quality"] == MetricAgreement("nominal", pytest.approx(1 - 5 * 1.5 / 9), 2, None)  # type: ignore[arg-type]


def test_a_metric_without_a_level_is_nominal() -> None:
    sitting = jury(levels={})
    sitting.deliberate(judge("good", 2, 3))
    assert sitting.agreement() == {"quality": MetricAgreement("nominal", 0.0, 1, None)}


def test_ordered_labels_agree_by_their_order() -> None:
    order = ["poor", "fair", "good"]
    sitting = Jury("majority", MEMBERS, {"quality": "ordinal"}, {"quality": order})
    ranked = jury("majority", levels={"quality": "ordinal"})
    for labels in (["poor", "fair", "fair"], ["good", "good", "fair"], ["poor", "poor", "poor"]):
        sitting.deliberate(judge(*labels))
        ranked.deliberate(judge(*(order.index(label) for label in labels)))
    assert sitting.agreement() == ranked.agreement()
    # Four poor, three fair, two good: the middle ranks are 2, 5.5 and 8.
    assert sitting.agreement()["quality"].alpha == pytest.approx(
        1 - 8 * (3.5**2 + 2.5**2) / (12 * 3.5**2 + 6 * 2.5**2 + 8 * 6**2)
    )


def test_a_label_where_the_level_needs_numbers_is_refused() -> None:
    with pytest.raises(MagistrateError, match="label 'good', and agreement at the interval level needs numbers"):
        jury().deliberate(judge(1, "good", 3))


def test_before_the_first_sample_nothing_is_known_of_agreement() -> None:
    assert jury().agreement() == {"quality": MetricAgreement("interval", None, 0, None)}
