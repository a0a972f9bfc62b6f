"""From files of verdicts and labels to corrected means, and the command."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from evals.meta.estimate import DEPENDENT, FRACTIONS, MetricEstimate, Options, estimate
from evals.stats.corrected import Corrected, prediction_powered
from evals.stats.corrected_rates import rogan_gladen, stratified
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.verdict import Verdict
from magistrate.cli.estimating import estimate as command

COMMAND = typer.Typer()
COMMAND.command()(command)

LABELLED = 40
ALL = 400


def scored(name: str, **scores: Any) -> Verdict:
    return Verdict(id=name, judge="rubric", status="scored", scores=scores, sample="s", fingerprint="f")


def unscored(name: str, reason: str) -> Verdict:
    return Verdict(id=name, judge="rubric", status="unscored", reason=reason, sample="s", fingerprint="f")


def write_verdicts(path: Path, verdicts: Sequence[Verdict]) -> Path:
    path.write_text("".join(one.to_json() + "\n" for one in verdicts))
    return path


def write_labels(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    names = list(rows[0])
    path.write_text("\n".join([",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]) + "\n")
    return path


class Made:
    """400 verdicts of two metrics, and labels of the first 40: `grammar` of 1 to 5, `true` of 0 and 1."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(3)
        people = chance.normal(size=ALL)
        judge = 0.8 * people + 0.6 * chance.normal(size=ALL)
        self.grammar, self.judged = (np.clip(np.rint(3 + one), 1, 5).astype(int) for one in (people, judge))
        self.true, self.judged_true = (self.grammar > 2).astype(int), (self.judged > 2).astype(int)
        pairs = zip(self.judged.tolist(), self.judged_true.tolist(), strict=True)
        self.verdicts = [scored(f"s{place}", grammar=one, true=other) for place, (one, other) in enumerate(pairs)]
        self.rows = [{"id": f"s{place}", "grammar": self.grammar[place], "true": self.true[place]} for place in range(LABELLED)]
        self.folder = folder

    def files(self) -> tuple[Path, Path]:
        return (
            write_verdicts(self.folder / "verdicts.jsonl", self.verdicts),
            write_labels(self.folder / "labels.csv", self.rows),
        )


def mean_of(found: MetricEstimate) -> Corrected:
    assert found.mean is not None
    return found.mean


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_each_metric_is_corrected_by_its_column(made: Made) -> None:
    found = estimate(*made.files())
    assert [one.metric for one in found.metrics] == ["grammar", "true"]
    grammar, true = found.metrics
    assert grammar.mean == prediction_powered(made.grammar[:LABELLED], made.judged[:LABELLED], made.judged[LABELLED:])
    assert grammar.rate is None
    parts = made.true[:LABELLED], made.judged_true[:LABELLED], made.judged_true[LABELLED:]
    assert true.rate == stratified(*parts)
    assert true.rogan_gladen == rogan_gladen(*parts)
    assert (found.verdicts, found.labelled, found.unmatched_count, found.fault_count) == (ALL, LABELLED, 0, 0)


def test_graded_scores_become_passes(made: Made) -> None:
    (found,) = estimate(*made.files(), Options(columns={"grammar": "grammar"}, pass_at=3)).metrics
    assert found.rate == stratified(made.true[:LABELLED], made.judged_true[:LABELLED], made.judged_true[LABELLED:])


def test_a_column_of_another_name_is_named(made: Made) -> None:
    made.rows = [{"id": row["id"], "human_grammar": row["grammar"]} for row in made.rows]
    verdicts, labels = made.files()
    with pytest.raises(MagistrateError, match=r"no column of labels.csv \(`human_grammar`\) .*`--metric NAME=COLUMN`"):
        estimate(verdicts, labels)
    (found,) = estimate(verdicts, labels, Options(columns={"grammar": "human_grammar"})).metrics
    assert (found.metric, found.column, mean_of(found).labels) == ("grammar", "human_grammar", LABELLED)


def test_several_raters_count_as_one_label_which_is_their_mean(made: Made) -> None:
    made.rows += [{"id": "s0", "grammar": 1, "true": ""}, {"id": "s1", "grammar": 2, "true": ""}]
    grammar, true = estimate(*made.files()).metrics
    labels = made.grammar[:LABELLED].astype(float)
    labels[:2] = (labels[:2] + np.array([1, 2])) / 2
    assert mean_of(grammar).human == pytest.approx(labels.mean())
    assert (mean_of(grammar).labels, grammar.several) == (LABELLED, 2)
    assert (true.several, true.empty) == (0, 2)


def test_nothing_that_is_left_out_is_lost(made: Made) -> None:
    made.verdicts[0] = unscored("s0", "context overflow")
    made.verdicts[LABELLED] = unscored(f"s{LABELLED}", "context overflow")
    made.verdicts[LABELLED + 1] = scored(f"s{LABELLED + 1}", grammar=None, true=1)
    made.rows += [{"id": f"x{place}", "grammar": 3, "true": 1} for place in range(12)]
    made.rows += [{"id": "s70", "grammar": "good", "true": "nan"}, {"id": "", "grammar": 3, "true": 1}]
    found = estimate(*made.files())
    grammar, true = found.metrics
    assert (mean_of(grammar).labels, mean_of(grammar).others) == (LABELLED - 1, ALL - LABELLED - 2)
    assert grammar.unscored == {"context overflow": 2, "the verdict has no number for it": 1}
    assert (grammar.unscored_labels, true.unscored) == (1, {"context overflow": 2})
    assert (found.unmatched_count, list(found.unmatched)) == (12, [f"x{place}" for place in range(10)])
    assert found.fault_count == 3
    assert any("`grammar` is 'good', which is no number" in fault for fault in found.faults)
    assert any("there is no id" in fault for fault in found.faults)


def test_expected_scores_are_used_where_asked_for(made: Made) -> None:
    made.verdicts = [
        Verdict(
            id=one.id,
            judge="rubric",
            status="scored",
            scores={"grammar": int(score)},
            expected={"grammar": None if one.id == "s50" else Expectation(float(score) + 0.25, 0.1)},
            sample="s",
            fingerprint="f",
        )
        for one, score in zip(made.verdicts, made.judged, strict=True)
    ]
    (found,) = estimate(*made.files(), Options(expected=True)).metrics
    assert found.unscored == {"the verdict has no expected score": 1}
    assert mean_of(found).judge == pytest.approx(np.delete(made.judged, 50).mean() + 0.25)


def test_what_a_reader_should_know_is_said(made: Made) -> None:
    made.rows = [{**row, "grammar": 6 - row["grammar"], "true": int(place > 2)} for place, row in enumerate(made.rows)]
    grammar, true = estimate(*made.files()).metrics
    assert any("does not go with people" in note for note in grammar.notes)
    assert any("only 3 labels are 0" in note for note in true.notes)


def test_a_metric_that_is_refused_leaves_the_others(made: Made) -> None:
    made.rows = [{**row, "grammar": 3} for row in made.rows]
    found = estimate(*made.files())
    assert [one.metric for one in found.metrics] == ["true"]
    assert "people gave all 40 labelled items 3" in found.refused["grammar"]
    made.rows = made.rows[:9]
    with pytest.raises(MagistrateError, match="grammar: there are 9 labels of scored items; at least 10"):
        estimate(*made.files())


def test_files_that_do_not_belong_together_are_told(made: Made) -> None:
    verdicts, labels = made.files()
    with pytest.raises(MagistrateError, match="no numbers for `style`; they have `grammar`, `true`"):
        estimate(verdicts, labels, Options(columns={"style": "grammar"}))
    with pytest.raises(MagistrateError, match="no column `style`"):
        estimate(verdicts, labels, Options(columns={"grammar": "style"}))
    strangers = write_labels(made.folder / "strangers.csv", [{"id": "a", "grammar": 1}])
    with pytest.raises(MagistrateError, match=r"no id of strangers.csv \(`a`\) has a verdict"):
        estimate(verdicts, strangers)
    spaced = write_labels(made.folder / "spaced.csv", [{"id": " s1 ", "grammar": 1}])
    with pytest.raises(MagistrateError, match="must be those of the samples; they differ by the spaces around them"):
        estimate(verdicts, spaced)
    nameless = write_labels(made.folder / "nameless.csv", [{"grammar": 1}])
    with pytest.raises(MagistrateError, match="no column `id`"):
        estimate(verdicts, nameless)
    with pytest.raises(MagistrateError, match=r"no verdict of verdicts.jsonl has expected scores; judge with `--expected`"):
        estimate(verdicts, labels, Options(expected=True))
    lost = write_verdicts(made.folder / "lost.jsonl", [unscored("s1", "context overflow")])
    with pytest.raises(MagistrateError, match=r"no verdict of lost.jsonl has scores \(1: context overflow\)"):
        estimate(lost, labels)
    torn = made.folder / "torn.jsonl"
    torn.write_bytes(verdicts.read_bytes()[:-20])
    with pytest.raises(MagistrateError, match=r"is not a Magistrate verdict: .*; the run that wrote it was stopped there"):
        estimate(torn, labels)
    twice = write_verdicts(made.folder / "twice.jsonl", [made.verdicts[0], made.verdicts[0]])
    with pytest.raises(MagistrateError, match="line 2: id `s0` has two verdicts"):
        estimate(twice, labels)
    with pytest.raises(MagistrateError, match="verdicts are read from JSON lines, Parquet or a folder of units, not from CSV"):
        estimate(labels, labels)
    with pytest.raises(MagistrateError, match="cannot be read"):
        estimate(made.folder / "none.jsonl", labels)
    (made.folder / "empty.jsonl").write_text("\n")
    with pytest.raises(MagistrateError, match="holds no verdicts"):
        estimate(made.folder / "empty.jsonl", labels)


def test_the_command_prints_tables_and_writes_the_figures(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    made.rows += [{"id": "elsewhere", "grammar": 3, "true": 1}]
    verdicts, labels = made.files()
    output = made.folder / "out.json"
    result = CliRunner().invoke(COMMAND, [str(verdicts), "--human", str(labels), "-o", str(output)])
    assert result.exit_code == 0, result.output
    for text in ("judge alone", "people alone", "narrower by", "Rogan-Gladen", "1 label id without a verdict: elsewhere"):
        assert text in result.output
    figures = json.loads(output.read_text())
    mean = figures["metrics"][0]["mean"]
    assert f"{mean['estimate']:.3f} ({mean['low']:.3f} to {mean['high']:.3f})" in result.output
    assert mean["labels"] == LABELLED


def test_the_commands_errors_are_sentences(made: Made) -> None:
    verdicts, labels = made.files()
    before = verdicts.read_bytes()
    for more in (["-o", str(verdicts)], ["--metric", "style"], ["--metric", "=x"]):
        result = CliRunner().invoke(COMMAND, [str(verdicts), "--human", str(labels), *more])
        assert result.exit_code == 1
        assert "Traceback" not in result.output
    assert verdicts.read_bytes() == before


def test_a_share_that_is_not_known_is_null_in_json(made: Made) -> None:
    made.rows = [{"id": row["id"], "grammar": 3 + place % 3} for place, row in enumerate(made.rows)]
    verdicts, labels = made.files()
    output = made.folder / "out.json"
    result = CliRunner().invoke(COMMAND, [str(verdicts), "--human", str(labels), "--pass-at", "3", "-o", str(output)])
    assert result.exit_code == 0, result.output
    rate = json.loads(output.read_text())["metrics"][0]["rate"]
    assert rate["specificity"] is None
    assert not math.isnan(rate["estimate"])


def test_an_id_that_is_none_is_not_taken_for_the_rows_number(tmp_path: Path) -> None:
    verdicts = write_verdicts(tmp_path / "verdicts.jsonl", [scored(str(place), q=place % 5) for place in range(1, 41)])
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps({"id": 100 + place + 0.5, "q": place % 5}) + "\n" for place in range(1, 21)))
    with pytest.raises(MagistrateError, match=r"no id of labels.jsonl \(`101.5`, `102.5`"):
        estimate(verdicts, labels)
    rows = [{"id": place, "q": place % 5} for place in range(1, 21)]
    strange = [{"id": [21], "q": 1}, {"id": True, "q": 1}, {"id": None, "q": 1}, {"id": "", "q": 1}]
    labels.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *strange]))
    found = estimate(verdicts, labels)
    assert mean_of(found.metrics[0]).labels == 20
    assert found.fault_count == 4
    assert "there is no id" in found.faults[0]


def test_where_people_pass_all_there_is_a_rate_and_no_mean(made: Made) -> None:
    made.rows = [{**row, "true": 1} for row in made.rows]
    found = estimate(*made.files()).metrics[1]
    assert found.mean is None
    assert found.rate == stratified(np.ones(LABELLED), made.judged_true[:LABELLED], made.judged_true[LABELLED:])
    assert "no mean: people gave all 40 labelled items 1; nothing can be learned from that" in found.notes
    told = CliRunner().invoke(COMMAND, [*map(str, made.files()[:1]), "--human", str(made.files()[1]), "--metric", "true"])
    assert told.exit_code == 0, told.output
    assert "judge alone" in told.output
    assert "narrower by" not in told.output
    made.rows = [{**row, "grammar": 3} for row in made.rows]
    assert "grammar" in estimate(*made.files()).refused


def test_passes_that_are_fractions_are_told_of(made: Made) -> None:
    made.rows.append({"id": "s0", "grammar": 1, "true": 1 - made.true[0]})
    found = estimate(*made.files()).metrics[1]
    assert (found.rate, found.rogan_gladen, FRACTIONS in found.notes) == (None, None, True)
    assert estimate(*made.files(), Options(pass_at=0.5)).metrics[1].rate is not None


def test_verdicts_of_several_judges_are_told_of(made: Made) -> None:
    made.verdicts[:100] = [replace(one, judge="other") for one in made.verdicts[:100]]
    verdicts, labels = made.files()
    assert estimate(verdicts, labels).judges == ["judge other, fingerprint f", "judge rubric, fingerprint f"]
    told = CliRunner().invoke(COMMAND, [str(verdicts), "--human", str(labels)])
    assert "the verdicts are of 2 judges or ways of judging: judge other, fingerprint f; judge rubric" in " ".join(
        told.output.split()
    )


def test_metrics_may_be_called_anything(made: Made) -> None:
    made.verdicts = [scored(f"s{place}", **{"tone [/5]": int(one)}) for place, one in enumerate(made.judged)]
    verdicts, labels = made.files()
    told = CliRunner().invoke(COMMAND, [str(verdicts), "--human", str(labels), "--metric", "tone [/5]=grammar"])
    assert told.exit_code == 0, told.output
    assert "tone [/5]" in told.output


def test_samples_of_one_item_go_together(made: Made) -> None:
    verdicts, labels = made.files()
    rows = [{"id": f"s{place}", "document": f"d{place % 25}"} for place in range(ALL - 5)]
    items = write_labels(made.folder / "items.csv", rows)
    found = estimate(verdicts, labels, Options(items=items, item="document"))
    grammar, true = found.metrics
    subjects = [row["document"] for row in rows]
    parts = made.grammar[:LABELLED], made.judged[:LABELLED], made.judged[LABELLED : ALL - 5]
    assert grammar.mean == prediction_powered(*parts, subjects=(subjects[:LABELLED], subjects[LABELLED:]))
    assert (grammar.items, true.rate, true.notes[-1:], DEPENDENT in grammar.notes) == (25, None, [DEPENDENT], False)
    assert [(one.what, one.count) for one in found.left_out] == [("left out: items.csv names no item", 5)]
    asked = [str(verdicts), "--human", str(labels), "--items", str(items), "--item", "document"]
    told = CliRunner().invoke(COMMAND, asked)
    assert told.exit_code == 0, told.output
    for said in ("the labelled samples are about 25 things", "5 rows: left out: items.csv names no item", "no pass rate"):
        assert said in " ".join(told.output.split())
    with pytest.raises(MagistrateError, match="belong together"):
        estimate(verdicts, labels, Options(items=items))


def test_a_number_that_no_float_holds_is_no_label(made: Made) -> None:
    verdicts, _ = made.files()
    labels = made.folder / "labels.jsonl"
    rows = [*made.rows, {"id": "s50", "grammar": 10**400, "true": 1}]
    labels.write_text("".join(json.dumps(row, default=int) + "\n" for row in rows))
    found = estimate(verdicts, labels)
    assert mean_of(found.metrics[0]).labels == LABELLED
    assert "which is no number" in found.faults[0]
