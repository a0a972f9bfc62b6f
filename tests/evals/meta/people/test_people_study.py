"""A judge beside people: the figures of real files against a computation of their own, and what is said of holes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer
from scipy import stats

from evals.data.published_ratings import Rated, RatedSet
from evals.data.rated_samples import read_rated
from evals.meta.people.baselines import BLEU_4, ROUGE_L
from evals.meta.people.judge_scores import MEAN, judge_scores
from evals.meta.people.published import published
from evals.meta.people.raters import scales_differ
from evals.meta.people.report import document, figures
from evals.meta.people.study import ALL, RATERS, Group, Options, People, study
from evals.reports.markdown import markdown
from evals.reports.wording import BELOW, absent
from evals.stats.association import COEFFICIENTS, associations
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.grouse import Grouse
from judges.verdict import Verdict

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
QUICK = Options(rounds=50)


def verdict(name: str, scores: dict[str, Any] | None, reason: str | None = None, expected: Any = None) -> Verdict:
    return Verdict(
        id=name,
        judge="rubric",
        status="unscored" if scores is None else "scored",
        scores=scores,
        reason=reason,
        expected=expected,
        sample="s",
        fingerprint="f",
    )


def line(group: Group, name: str) -> Any:
    return next(one for one in group.lines if one.name == name).qualities


@pytest.fixture(scope="module")
def usr(data: Path) -> People:
    return study(read_rated(data / "usr" / "tc_usr_data.json"), None, QUICK)


QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")


@pytest.mark.parametrize("quality", QUALITIES)
def test_raters_and_baselines_of_usr_are_those_of_another_computation(data: Path, usr: People, quality: str) -> None:
    """Straight from the file, with nothing of ours."""
    everyone: list[list[int]] = []
    referenced: list[list[int]] = []
    similar: dict[str, list[float]] = {"BLEU": [], "ROUGE-1": [], "ROUGE-2": [], "ROUGE-L": [], "chrF": []}
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for dialogue in json.loads((data / "usr" / "tc_usr_data.json").read_text()):
        truth = next(one for one in dialogue["responses"] if one["model"] == "Original Ground Truth")["response"].strip()
        for answer in dialogue["responses"]:
            everyone.append(answer[quality])
            if answer["model"] == "Original Ground Truth":
                continue
            referenced.append(answer[quality])
            text = answer["response"].strip()
            rouge = scorer.score(truth, text)
            similar["BLEU"].append(sacrebleu.sentence_bleu(text, [truth]).score)
            similar["chrF"].append(sacrebleu.sentence_chrf(text, [truth]).score)
            for name, key in (("ROUGE-1", "rouge1"), ("ROUGE-2", "rouge2"), ("ROUGE-L", "rougeL")):
                similar[name].append(rouge[key].fmeasure)
    whole, part = usr.groups
    assert (whole.samples, part.samples, whole.items, part.items) == (360, 300, 60, 60)
    assert (whole.referenced, part.referenced) == (False, True)
    for coefficient, function in SCIPY.items():
        for group, ratings in ((whole, np.array(everyone, float)), (part, np.array(referenced, float))):
            each = [function(ratings[:, one], np.delete(ratings, one, axis=1).mean(axis=1)).statistic for one in range(3)]
            assert line(group, RATERS)[quality][coefficient].value == pytest.approx(np.mean(each), abs=1e-12)
        for name, values in similar.items():
            wanted = function(values, np.array(referenced, float).mean(axis=1)).statistic
            assert line(part, name)[quality][coefficient].value == pytest.approx(wanted, abs=1e-12), name
    for level in ("interval", "ordinal"):
        wanted = krippendorff.alpha(reliability_data=np.array(everyone, float).T, level_of_measurement=level)
        assert getattr(whole.raters[quality], level) == pytest.approx(wanted, abs=1e-9)


def test_bleu_4_and_rouge_l_of_usr_are_the_published_ones(usr: People) -> None:
    """Yeh, Eskenazi and Mehri (2021), turn level, to the last digit that they print."""
    (table,) = [one for one in published() if one.set == "TopicalChat (USR)"]
    for name, here in (("BLEU-4", BLEU_4), ("ROUGE-L", ROUGE_L)):
        found = line(usr.groups[1], here)[table.quality]
        assert (round(found["pearson"].value, 3), round(found["spearman"].value, 3)) == table.metrics[name]
        assert found["pearson"].pairs == table.samples


def test_published_correlations_stand_beside_a_known_set(data: Path, usr: People) -> None:
    text = markdown(document(usr))
    assert text.count("### Beside published correlations: Overall") == 1, "of the samples with a reference alone"
    assert "| USR | Yeh, Eskenazi and Mehri (2021), turn level | 0.412 | 0.423 |" in text
    assert "The published figures are of the same samples." in text
    assert [one["metrics"]["USR"] for one in figures(usr)["published"]] == [(0.412, 0.423)]
    some = study(read_rated(data / "usr" / "tc_usr_data.json", limit=90), None, QUICK)
    assert "The published figures are of all 300 samples." in markdown(document(some))
    assert "Beside published" not in markdown(document(Made().found()))


def test_the_sets_of_grade_stand_by_themselves_and_together(data: Path) -> None:
    found = study(read_rated(data / "grade" / "human_judgement.json"), None, QUICK)
    assert [one.name for one in found.groups] == ["DailyDialog (GRADE)", "ConvAI2 (GRADE)", ALL]
    assert [one.samples for one in found.groups] == [300, 600, 900]
    raw = json.loads((data / "grade" / "human_judgement.json").read_text())
    table = np.full((11, 900), np.nan)
    for place, row in enumerate(raw):
        scores = json.loads(row["HumanScores"])
        table[: len(scores), place] = scores
    daily = [place for place, row in enumerate(raw) if row["Dataset"] == "dailydialog_EVAL"]
    wanted = krippendorff.alpha(reliability_data=table[:, daily], level_of_measurement="interval")
    raters = found.groups[0].raters["Quality"]
    assert raters.interval == pytest.approx(wanted, abs=1e-9)
    assert (raters.least, raters.most) == (9, 11)
    assert "| Quality | 0.084 | 0.084 | 300 | 9 to 11 |" in markdown(document(found))
    # Each place of raters weighs as many samples as it has.
    coefficients, weights = [], []
    for one in range(11):
        rows = [place for place in daily if not np.isnan(table[one, place])]
        others = np.nanmean(np.delete(table, one, axis=0)[:, rows], axis=0)
        coefficients.append(stats.kendalltau(table[one, rows], others).statistic)
        weights.append(len(rows))
    value = line(found.groups[0], RATERS)["Quality"]["kendall"].value
    # numpy's mean of the others is not correctly rounded, so that a tie or two of means may be broken by the last bit.
    assert value == pytest.approx(np.average(coefficients, weights=weights), abs=1e-4)


class Made:
    """Forty samples of ten dialogues, the first thirty with a reference, and verdicts of two metrics."""

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        true = chance.normal(size=40)
        self.people = np.clip(np.rint(3 + true[:, None] + chance.normal(0, 0.7, (40, 3))), 1, 5)
        self.judge = np.clip(np.rint(3 + true[:, None] + chance.normal(0, 0.7, (40, 2))), 0, 5)
        self.samples = []
        for place in range(40):
            sample = {"context": "hello", "response": f"word{place % 7} and more {place % 3}"}
            if place < 30:
                sample["reference"] = f"word{place % 5} and more"
            ratings = {"quality": self.people[place].tolist(), "tone": [2.0, 2.0, None]}
            self.samples.append(Rated(id=f"s{place}", sample=sample, ratings=ratings, set="mine", item=str(place // 4)))
        self.verdicts = {
            f"s{place}": verdict(
                f"s{place}",
                {"grammar": int(one), "sense": int(other)},
                expected={"grammar": Expectation(float(one) + 0.01 * place, 0.1), "sense": None},
            )
            for place, (one, other) in enumerate(self.judge)
        }

    @property
    def rated(self) -> RatedSet:
        return RatedSet("mine", self.samples, ["quality", "tone"])

    def found(self, **options: Any) -> People:
        scales = {"grammar": range(6), "sense": range(6)}
        return study(self.rated, self.verdicts, Options(**{"rounds": 50, "scales": scales, **options}))


def test_the_judges_metrics_and_their_mean_are_set_against_every_quality() -> None:
    made = Made()
    whole, part = made.found().groups
    assert [one.name for one in whole.lines] == ["grammar", "sense", MEAN, RATERS]
    names = ["grammar", "sense", MEAN, RATERS, "BLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L", "chrF", BLEU_4, ROUGE_L]
    assert [one.name for one in part.lines] == names, "the judge's rows again, on the same samples"
    people = made.people.mean(axis=1)
    columns = np.column_stack([made.judge, made.judge.mean(axis=1)])
    for group, rows in ((whole, slice(None)), (part, slice(30))):
        items = np.repeat(np.arange(10), 4)[rows]
        wanted = associations(columns[rows], people[rows, None], items, rounds=50)
        for name, one in zip(("grammar", "sense", MEAN), wanted, strict=True):
            found = line(group, name)["quality"]
            for coefficient in COEFFICIENTS:
                assert found[coefficient].value == pytest.approx(one[0][coefficient].value, abs=1e-12)
                assert (found[coefficient].low, found[coefficient].high) == pytest.approx(
                    (one[0][coefficient].low, one[0][coefficient].high), abs=1e-12
                )


def test_systems_means_are_set_against_peoples_means_of_them() -> None:
    made = Made()
    made.samples = [replace(one, system=None if place == 39 else f"system {place % 5}") for place, one in enumerate(made.samples)]
    found = made.found()
    whole, part = found.groups
    assert [one.name for one in whole.over_systems] == ["grammar", "sense", MEAN], "raters are held against each other above"
    assert [one.name for one in part.over_systems][3:] == ["BLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L", "chrF", BLEU_4, ROUGE_L]
    means = [(np.mean(made.judge[one:39:5, 0]), np.mean(made.people[one:39:5].mean(axis=1))) for one in range(5)]
    (first, *_) = whole.over_systems
    assert first.qualities["quality"]["spearman"].value == pytest.approx(stats.spearmanr(*zip(*means, strict=True)).statistic)
    assert first.qualities["quality"]["spearman"].pairs == whole.systems == 5
    text = markdown(document(found))
    assert "### mine: over 5 systems" in text
    assert "### mine, samples with a reference: over 5 systems" in text
    made.samples = [
        replace(one, ratings={**one.ratings, "tone": [None] * 3}) if place % 5 else one for place, one in enumerate(made.samples)
    ]
    assert "grammar, tone; sense, tone; mean of the metrics, tone: both are known of 1 system, and 5 are needed" in markdown(
        document(made.found())
    )
    made.samples = [replace(one, system=f"system {place % 4}") for place, one in enumerate(made.samples)]
    assert not made.found().groups[0].over_systems, "four are too few"


def test_metrics_of_different_scales_have_no_mean() -> None:
    made = Made()
    found = made.found(scales={"grammar": range(6), "sense": range(2)})
    assert [one.name for one in found.groups[0].lines] == ["grammar", "sense", RATERS]
    assert "there is no mean of the metrics: they have different scales" in found.notes
    unknown = made.found(scales=None)
    assert [one.name for one in unknown.groups[0].lines] == ["grammar", "sense", RATERS]
    assert "there is no mean of the metrics: verdicts of `rubric` do not tell whether all have one scale" in unknown.notes
    made.verdicts = {name: replace(one, judge="llm-eval") for name, one in made.verdicts.items()}
    assert MEAN in [one.name for one in made.found(scales=None).groups[0].lines], "LLM-Eval has one scale"


def test_no_mean_of_a_refusal_is_set_beside_that_of_an_answer() -> None:
    """GroUSE: of a perfect refusal only faithfulness applies, so a mean of what applies is 1.0; a bad answer has 1.33."""
    scales = {one.metric: one.legal for one in Grouse().numeric_scores}
    refusal = {"answer_relevancy": None, "completeness": None, "usefulness": None, "faithfulness": 1}
    bad = {"answer_relevancy": 2, "completeness": 2, "usefulness": None, "faithfulness": 0}
    verdicts = {"refusal": verdict("refusal", refusal), "bad": verdict("bad", bad)}
    found = judge_scores(["refusal", "bad"], verdicts, scales=scales)
    assert MEAN not in found.written
    assert found.notes == ["there is no mean of the metrics: they have different scales"]
    assert judge_scores(["refusal", "bad"], {name: replace(one, judge="grouse") for name, one in verdicts.items()}).notes == [
        "there is no mean of the metrics: verdicts of `grouse` do not tell whether all have one scale"
    ]


def test_a_sample_that_lacks_a_metric_has_no_mean() -> None:
    made = Made()
    made.verdicts["s1"] = verdict("s1", {"grammar": None, "sense": 4})
    found = made.found()
    assert line(found.groups[0], MEAN)["quality"]["pearson"].pairs == 39
    rows = [place for place in range(40) if place != 1]
    wanted = stats.pearsonr(made.judge.mean(axis=1)[rows], made.people.mean(axis=1)[rows]).statistic
    assert line(found.groups[0], MEAN)["quality"]["pearson"].value == pytest.approx(wanted)
    assert "1 sample lacks the score of a metric, and so the mean of the metrics" in found.notes


def test_expected_scores_have_rows_of_their_own() -> None:
    made = Made()
    made.verdicts["s5"] = verdict("s5", {"grammar": 1, "sense": 2})
    found = made.found(expected=True)
    whole = found.groups[0]
    assert [one.kind for one in whole.lines] == ["judge"] * 3 + ["expected", "raters"]
    rows = [place for place in range(40) if place != 5]
    wanted = stats.pearsonr(made.judge[rows, 0] + 0.01 * np.array(rows), made.people.mean(axis=1)[rows]).statistic
    assert line(whole, "grammar, expected")["quality"]["pearson"].value == pytest.approx(wanted)
    assert [(one.what, one.ids) for one in found.faults] == [("verdict without expected scores", ["s5"])]
    assert "grammar, expected, quality: 39 of 40 samples have it" in markdown(document(found))


def test_what_is_undefined_is_a_sign_with_its_reason() -> None:
    made = Made()
    made.verdicts = {name: verdict(name, {"grammar": 3, "kind": "fine"}) for name in made.verdicts}
    found = made.found()
    text = markdown(document(found))
    assert f"| grammar | {absent(BELOW)} | {absent(BELOW)} |" in text
    assert "- grammar, quality: it is the same of every sample, so no correlation is defined" in text
    assert "- grammar, tone: it and people's mean are the same of every sample, so no correlation is defined" in text
    assert "- tone: no alpha: all ratings are the same, so chance would agree as well" in text
    assert "`kind` gives labels and no numbers, and stands in no table" in text.replace("\\", "")
    assert "nan" not in text.lower()


def test_nothing_that_is_left_out_is_lost() -> None:
    made = Made()
    made.verdicts["s0"] = verdict("s0", None, "context overflow")
    made.verdicts["s1"] = verdict("s1", {"grammar": None, "sense": 4})
    del made.verdicts["s2"]
    made.verdicts["other"] = verdict("other", {"grammar": 1, "sense": 1})
    found = made.found()
    grammar, sense = (line(found.groups[0], name)["quality"]["pearson"] for name in ("grammar", "sense"))
    assert (grammar.pairs, sense.pairs) == (37, 38)
    assert line(found.groups[0], RATERS)["quality"]["pearson"].pairs == found.groups[0].samples == 39
    assert found.unscored == {"context overflow": 1}
    faults = {one.what: one.ids for one in found.faults}
    assert faults == {"no verdict": ["s2"], "verdict of no sample of this file": ["other"]}
    text = markdown(document(found))
    told = "the tables are of the 39 of 40 samples that have a verdict"
    for said in ("1 sample not scored: context overflow", "37 of 39 samples have it", "1 row: no verdict: s2", told):
        assert said in text


def test_a_reference_that_a_baseline_cannot_measure_is_counted() -> None:
    made = Made()
    made.samples[0].sample["reference"] = "!"  # type: ignore[index]
    part = made.found().groups[1]
    assert line(part, "ROUGE-1")["quality"]["pearson"].pairs == 29
    assert line(part, "chrF")["quality"]["pearson"].pairs == 30
    whats = {one.what: one.ids for one in part.faults}
    assert whats["ROUGE-1: the right answer has no word of the letters a to z and digits"] == ["s0"]


def test_one_rater_has_no_ceiling() -> None:
    made = Made()
    made.samples = [
        Rated(id=one.id, sample={"response": "a"}, ratings={"quality": one.ratings["quality"][:1]}, set="mine", item=one.item)
        for one in made.samples
    ]
    found = study(RatedSet("mine", made.samples, ["quality"]), None, QUICK)
    text = markdown(document(found))
    assert f"| a rater and the others | {absent(BELOW)} |" in text
    assert "- a rater and the others: there is one rating of each sample at the most" in text
    assert "- quality: no alpha: there is one rating of each sample at the most" in text
    assert len(found.groups) == 1


def test_other_scales_are_remarked_on() -> None:
    fives, tens = [float(1 + place % 5) for place in range(40)], [float(1 + place % 10) for place in range(40)]
    assert scales_differ(list(zip(fives, fives[::-1], strict=True))) is None
    assert "ranges of raters differ: 1 to 5, 1 to 10" in str(scales_differ(list(zip(fives, tens, strict=True))))
    apart = [one / 10 for one in fives]
    assert scales_differ(list(zip(fives, apart, strict=True))) is not None
    assert scales_differ([(1.0, 80.0)] * 29) is None, "few ratings say little of a scale"


def test_too_little_is_refused() -> None:
    made = Made()
    few = RatedSet("few", made.samples[:9], ["quality"])
    with pytest.raises(MagistrateError, match="few has 9 rated samples; at least 10 are needed"):
        study(few)
    with pytest.raises(MagistrateError, match=r"no verdict has the id of a sample, such as `s0`.*--write-samples"):
        study(made.rated, {"x": verdict("x", {"grammar": 1})})
    with pytest.raises(MagistrateError, match=r"no verdict has a number \(40 samples: too long\)"):
        study(made.rated, {name: verdict(name, None, "too long") for name in made.verdicts})
    with pytest.raises(MagistrateError, match="mine has 9 rated samples with a verdict; at least 10 are needed"):
        study(made.rated, dict(list(made.verdicts.items())[:9]))


def test_a_small_set_beside_a_large_one_is_told_of() -> None:
    made = Made()
    made.samples = [
        Rated(id=one.id, sample=one.sample, ratings=one.ratings, set="small" if place < 5 else "large", item=one.item)
        for place, one in enumerate(made.samples)
    ]
    found = made.found()
    assert [one.name for one in found.groups] == ["large", "large", ALL, ALL]
    assert "small has 5 rated samples and no tables; at least 10 are needed" in found.notes


def test_few_items_have_no_interval() -> None:
    made = Made()
    made.samples = [
        Rated(id=one.id, sample={"response": "a"}, ratings=one.ratings, set="mine", item=str(place % 9))
        for place, one in enumerate(made.samples)
    ]
    found = made.found()
    assert line(found.groups[0], "grammar")["quality"]["pearson"].low is None
    text = markdown(document(found))
    assert (
        "- grammar, quality; sense, quality; mean of the metrics, quality; a rater and the others, quality: "
        "no interval: 9 items are too few, 10 are needed" in text
    )
