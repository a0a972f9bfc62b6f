import json
import re
from pathlib import Path

import pytest

from judges import catalog
from judges.affinity import Affinity
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.templates.shipped import TEMPLATES

RUBRIC = 'name = "{name}"\nfields = ["reply"]\n[[metric]]\nname = "kind"\ndescription = "d"\nscale = "pass/fail"\n'


def test_options_are_read_from_text() -> None:
    judge = catalog.open_judge("pairwise", {"orders": "given", "reasoning": "no"})
    assert isinstance(judge, Pairwise)
    assert judge.version == Pairwise(orders="given", reasoning=False).version
    assert catalog.open_judge("grouse", {"per_metric": "yes", "prompts": "card", "max_tokens": "64"}).version == (
        Grouse(per_metric=True, prompts="card", max_tokens=64).version
    )
    assert catalog.open_judge("llm-eval", {}, scale="0-100", metrics=None).version == LLMEval(scale="0-100").version


@pytest.mark.parametrize("content", ["Food\n\n Travel \n", '["Food", "Travel"]'])
def test_attributes_come_from_a_list_or_from_lines(tmp_path: Path, content: str) -> None:
    (tmp_path / "names").write_text(content)
    judge = catalog.open_judge("affinity", {"attributes": str(tmp_path / "names")})
    assert isinstance(judge, Affinity)
    assert judge.attributes == ("Food", "Travel")


def test_a_rubric_file_is_a_judge(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(RUBRIC.format(name="mine"))
    assert catalog.open_judge(str(tmp_path / "mine.toml")).levels == {"kind": "nominal"}
    (tmp_path / "theirs.toml").write_text(RUBRIC.format(name="grouse"))
    with pytest.raises(MagistrateError, match="`grouse` is the name of another judge"):
        catalog.open_judge(str(tmp_path / "theirs.toml"))


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("dredd", {}, "there is no judge `dredd`; there are llm-eval, grouse"),
        ("grouse", {"scale": "0-5"}, "judge `grouse` has no option `scale`; it has: per_metric, prompts, indented, max_tokens"),
        ("grouse", {"prompts": "card"}, "option `prompts` of judge `grouse` is for one prompt a metric; set `per_metric` too"),
        ("grouse", {"per_metric": "maybe"}, "option `per_metric` of judge `grouse` must be yes or no"),
        ("grouse", {"max_tokens": "0"}, "must be a whole number from 1"),
        ("pairwise", {"orders": "all"}, "option `orders` of judge `pairwise` must be one of both, given"),
        ("affinity", {}, "judge `affinity` needs `-O attributes=FILE`: a file of names"),
        ("affinity", {"attributes": "/no/such/file"}, "/no/such/file cannot be read"),
        ("shrink", {"factor": "half"}, "must be a number"),
        ("shrink", {"factor": "0.5"}, "cannot be shrunk by a factor of 0.5"),
        ("/no/rubric.toml", {}, "/no/rubric.toml: cannot be read"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(name: str, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(MagistrateError) as caught:
        catalog.open_judge(name, options)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[]", '["a", 1]', '["a"', ""])
def test_a_file_without_attributes_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "names.json").write_text(content)
    with pytest.raises(MagistrateError):
        catalog.open_judge("affinity", {"attributes": str(tmp_path / "names.json")})


def test_every_option_that_is_listed_is_an_option_of_its_judge(tmp_path: Path) -> None:
    (tmp_path / "names").write_text(json.dumps(["a"]))
    examples = {"attributes": str(tmp_path / "names"), "explanations": str(tmp_path / "names"), "factor": "2"}
    for name, judge in catalog.JUDGES.items():
        listed = judge.Options.listed()
        required = {option: examples[option] for option, about in listed.items() if about.required}
        plain = catalog.open_judge(name, required)
        for option, about in listed.items():
            values = [examples[option]] if option in examples else about.spelling.says.replace("NUMBER", "7").split(", ")
            needed = required | ({"per_metric": "yes"} if option == "prompts" else {})
            versions = {catalog.open_judge(name, needed | {option: value}).version for value in values}
            assert versions != {plain.version} or option in required, "an option changes what is asked"


def test_a_model_has_a_judge_of_its_own() -> None:
    assert catalog.usual_judge("llama-3-grouse") == "grouse"
    assert catalog.usual_judge(catalog.EMBEDDED) == catalog.usual_judge("some/other") == catalog.usual_judge(None) == "llm-eval"
    assert all(model.judge in (*catalog.JUDGES, *TEMPLATES) for model in catalog.MODELS.values())


def test_the_guides_table_says_what_each_judge_says_of_itself() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "judges" / "README.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| \[`(\S+)`\]\(\S+\) \| (.*?) \|", guide, re.MULTILINE))
    ours = {name: catalog.JUDGES[name].summary for name in catalog.BUILT_IN}
    assert said == ours | {name: kind.summary for name, kind in TEMPLATES.items()}
