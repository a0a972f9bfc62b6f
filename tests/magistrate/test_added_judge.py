"""A judge that another package adds, as CONTRIBUTING.md has it: all that judges has it, and a broken one harms no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from judges.catalog import BUILT_IN, GROUP, Registry
from judges.errors import MagistrateError
from judges.judge import Judge
from tests.magistrate.test_cli import ENVIRONMENT, assert_one_sentence, read, write
from tests.server.running import RunningServer
from tests.tiny import TINY

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
SMALL = ("--model", TINY, "--engine", "transformers", "--dtype", "float32")
SERVED = f'[models.tiny]\nmodel = "{TINY}"\nengine = "transformers"\ndtype = "float32"\n'
ROWS = [{"id": str(number), "reply": f"Thank you, number {number}. Come again."} for number in range(3)]


def install(folder: Path, name: str, **judges: str) -> None:
    """Make a distribution in a folder of the path: its metadata and its entry points."""
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = "".join(f"{judge} = {value}\n" for judge, value in judges.items())
    (information / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the guide's package, and one with a judge that cannot be imported."""
    folder = tmp_path_factory.mktemp("site")
    guide = GUIDE.read_text(encoding="utf-8").partition("## Add a judge")[2].partition("\n## ")[0]
    files = dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", guide, re.DOTALL))
    points = tomllib.loads(files.pop("pyproject.toml"))["project"]["entry-points"][GROUP]
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    install(folder, "my-judges", **points)
    install(folder, "their-judges", rudeness="no_such_module:Rudeness")
    return folder


def magistrate(path: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = ENVIRONMENT | {"PYTHONPATH": f"{path}:{GUIDE.parent}"}
    command = [sys.executable, "-m", "magistrate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_it_is_listed_with_its_options_and_a_broken_one_is_named(path: Path) -> None:
    done = magistrate(path, "judges")
    assert done.returncode == 0, done.stderr
    for text in (*BUILT_IN, "how polite a reply is, from 1 to 5", "tone=casual|formal", "our guide to style"):
        assert text in done.stdout
    assert "rudeness" not in done.stdout
    assert done.stderr.splitlines() == [
        "judge `rudeness` of package their-judges 1.0 (no_such_module:Rudeness) cannot be imported: ModuleNotFoundError: "
        "No module named 'no_such_module'"
    ]


def test_it_scores_a_file(path: Path, tmp_path: Path) -> None:
    source, output = write(tmp_path / "rows.jsonl", ROWS), tmp_path / "v.jsonl"
    score = ("score", source, "-o", output, *SMALL, "--judge")
    done = magistrate(path, *score, "politeness", "-O", "tone=formal")
    assert done.returncode == 0, done.stderr
    assert [verdict["judge"] for verdict in read(output)] == ["politeness"] * 3
    assert all(verdict["scores"]["politeness"] in (1, 2, 3, 4, 5) for verdict in read(output))
    assert_one_sentence(
        magistrate(path, *score, "politeness", "-O", "tone=rude"), "`tone` of judge `politeness` must be one of casual"
    )
    assert_one_sentence(magistrate(path, *score, "rudeness"), "of package their-judges 1.0", "cannot be imported")


def test_no_rubric_takes_its_name(path: Path, tmp_path: Path) -> None:
    rubric = tmp_path / "mine.toml"
    rubric.write_text('name = "politeness"\nfields = ["a"]\n[[metric]]\nname = "m"\ndescription = "d"\nscale = "1-5"\n')
    assert_one_sentence(magistrate(path, "judges", "check", rubric), "`politeness` is the name of another judge")


def test_it_has_a_card(path: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", ROWS)
    card = ("judges", "card", "--judge", "politeness", *SMALL, "--reruns", "1", "--seeds", "1", "-o", tmp_path / "card")
    assert_one_sentence(magistrate(path, *card), "no samples are bundled for judge `politeness`")
    done = magistrate(path, *card, "--samples", source)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "card" / "card.json").read_text(encoding="utf-8"))
    assert found["judge"]["name"] == "politeness"
    assert [one["metric"] for one in found["again"]] == ["politeness"]
    assert all(one["unchanged"]["count"] == 3 for one in found["formatting"])


def test_a_server_lists_it_and_judges_by_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{path}:{GUIDE.parent}")
    server = RunningServer(tmp_path / "server", models=SERVED).start(anew=True)  # the path is read as Python starts
    try:
        server.wait_until_ready()
        cards = {card["name"]: card for card in httpx.get(f"{server.url}/v1/judges", timeout=60).json()["data"]}
        assert list(cards) == [*BUILT_IN, "politeness", "rubric"]
        (option,) = cards["politeness"]["options"]
        assert (option["name"], option["legal"]["enum"], option["default"]) == ("tone", ["casual", "formal"], "casual")
        asked = cards["politeness"]["request"] | {"model": "tiny"}
        (verdict,) = httpx.post(f"{server.url}/v1/judgments", json=asked, timeout=120).json()["data"]
        assert verdict["scores"]["politeness"] in (1, 2, 3, 4, 5)
        broken = httpx.post(f"{server.url}/v1/judgments", json=asked | {"judge": "rudeness"}, timeout=60)
        assert broken.status_code == 400
        assert "cannot be imported" in broken.json()["error"]["message"]
        assert httpx.get(f"{server.url}/v1/judges/rudeness", timeout=60).status_code == 404
    finally:
        server.stop()


BROKEN = {
    "nothing": ("no_such_module:Judge", "cannot be imported: ModuleNotFoundError"),
    "raises": ("broken_judges.raising:Judge", "cannot be imported: ZeroDivisionError: division by zero"),
    "absent": ("broken_judges:Absent", "cannot be imported: AttributeError"),
    "number": ("broken_judges:NUMBER", "is no judge: it must be a class derived from `judges.judge.Judge`"),
    "bare": ("broken_judges:Bare", "lacks summary, source, example, protocol, read, render"),
    "shrunk": ("judges.qualeval:Shrink", "calls itself `shrink`; its entry point must be called so too"),
    "llm-eval": ("judges.grouse:Grouse", "cannot be called so"),
    "jury": ("judges.grouse:Grouse", "cannot be called so"),
    "mine.toml": ("judges.grouse:Grouse", "cannot be called so"),
}


def test_what_a_package_adds_wrongly_is_told_and_takes_no_judge_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "broken_judges"
    package.mkdir()
    bare = "from judges.judge import Judge\nNUMBER = 7\nclass Bare(Judge):\n    name = 'bare'\n"
    (package / "__init__.py").write_text(bare)
    (package / "raising.py").write_text("1 / 0")
    install(tmp_path, "broken-judges", **{name: value for name, (value, _) in BROKEN.items()})
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    assert list(registry.working) == list(BUILT_IN)
    assert all(issubclass(registry[name], Judge) and registry[name].name == name for name in BUILT_IN)
    assert registry.faults.keys() == BROKEN.keys()
    for name, (_, words) in BROKEN.items():
        assert words in registry.faults[name]
        assert f"judge `{name}` of package broken-judges 1.0" in registry.faults[name]
    with pytest.raises(MagistrateError, match="cannot be imported"):
        registry["nothing"]
