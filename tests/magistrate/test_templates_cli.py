"""Judges in their authors' words on the command line, each command as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.templates.shipped import TEMPLATES
from magistrate.cli.jury import PRESETS, JuryFile
from tests import authors_files
from tests.judges.templates.own import CRITERIA, LABELS, PAIR, RATING
from tests.magistrate.test_cli import ENVIRONMENT, magistrate
from tests.tiny import TINY


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_judge_says_how_to_fetch_its_words_and_takes_a_copy(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"question": "What is tea?", "answer": "A leaf."}) + "\n")
    asked = ("score", rows, "--judge", "prometheus-absolute", "--model", TINY, "--dry-run")
    refused = magistrate(*asked)
    assert refused.returncode == 1
    assert "run `magistrate judges fetch prometheus-absolute`" in refused.stderr
    assert refused.stderr.count("\n") == 1
    (source,) = TEMPLATES["prometheus-absolute"].file.sources
    copy = authors_files.copies().get(source.sha256)
    if copy is None:
        pytest.skip(f"{source} is not on this machine")
    assert "is ready" in magistrate("judges", "fetch", "prometheus-absolute", "--template", copy).stdout
    assert "[Does the model provide relevant" in magistrate(*asked).stdout
    assert "truthful and not misleading" in magistrate(*asked, "-O", "criteria=honesty").stdout
    own = tmp_path / "criteria.toml"
    own.write_text(CRITERIA.replace("1-3", "1-5").replace('3 = "wholly"', '3 = "a", 4 = "b", 5 = "c"'))
    assert "Does it fit?" in magistrate(*asked, "-O", f"criteria={own}").stdout
    assert "criteria for `-O criteria=`" in magistrate("judges", "check", own).stdout
    unknown = magistrate(*asked, "-O", "criteria=kindness")
    assert unknown.returncode == 1
    assert "has no criteria `kindness`; there are helpfulness, harmlessness" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("judges", "fetch", "llm-eval"), "judge `llm-eval` needs no authors' file"),
        (("judges", "fetch", "dredd"), "there is no judge `dredd`; there are llm-eval"),
        (("judges", "fetch", "rise", "--template", "nothing.py"), "nothing.py cannot be read"),
        (("judges", "fetch", "rise", "--template", TINY), "holds no rewardbench/generative.py of allenai/reward-bench"),
        (("models", "fetch", "llama-3.1-8b", "--template", TINY), "`--template` has no meaning for llama-3.1-8b"),
    ],
)
def test_what_cannot_be_fetched_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = magistrate(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_template_is_checked_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "tea.toml"
    file.write_text(LABELS)
    assert "is valid: judge `tea-labels` scores preference, orders_agree" in magistrate("judges", "check", file).stdout
    file.write_text(RATING.replace('score = "score"', 'score = "points"'))
    done = magistrate("judges", "check", file)
    assert done.returncode == 1
    assert f"{file} line 6: score: `points` is not a part of the answer" in done.stdout


def test_pairs_are_judged_by_a_template_of_a_users_own(tmp_path: Path) -> None:
    file, rows, output = tmp_path / "tea.toml", tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    file.write_text(LABELS)
    rows.write_text("".join(json.dumps({"id": str(number), **PAIR}) + "\n" for number in range(3)))
    done = magistrate("score", rows, "--judge", file, "--model", TINY, "-o", output)
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in output.read_text().splitlines()]
    assert {verdict["judge"] for verdict in verdicts} == {"tea-labels"}
    assert all(verdict["scores"]["preference"] in ("A", "B", "both", "tie") for verdict in verdicts)


def test_the_list_of_judges_says_whose_words_are_missing() -> None:
    listed = magistrate("judges").stdout
    for name in TEMPLATES:
        assert name in listed
    assert "magistrate judges fetch skywork-critic" in " ".join(listed.split())


@pytest.mark.parametrize("name", PRESETS)
def test_the_juries_for_a_gpu_have_three_judges_of_pairs(name: str) -> None:
    jury = JuryFile.load(Path(name))
    judges = [TEMPLATES[entry.judge_name(Path())] for entry in jury.member]
    assert len(judges) == 3
    assert all(kind.file.compare is not None for kind in judges)
    assert len({entry.model for entry in jury.member}) == 3
