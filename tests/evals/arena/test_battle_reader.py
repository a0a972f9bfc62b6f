"""The page's reader of battles, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.evals.arena import examples
from tests.evals.arena.reading import Figures, opened
from tests.evals.browser import Reader


def now(reader: Reader) -> dict[str, str]:
    """What the reader of battles shows, as its texts stand in the page."""
    names = ("title", "about", "question", "name-one", "answer-one", "name-other", "answer-other", "result", "reasons", "place")
    script = "return document.querySelector(`[data-${arguments[0]}]`).textContent"
    return {name: reader.run(script, name) for name in names}


def pick(reader: Reader, name: str, text: str) -> None:
    Select(reader.find(f"[data-examples] [name={name}]")).select_by_visible_text(text)


def chosen(shown: Figures, model: int, other: int | None, results: set[str]) -> list[list[Any]]:
    found = []
    for battle in shown["battles"]:
        _, first, second, preference, *_ = battle
        result = "tie" if preference not in ("A", "B") else "win" if (preference == "A") == (first == model) else "lose"
        if model in (first, second) and (other is None or other in (first, second)) and result in results:
            found.append(battle)
    return found


def test_battles_are_read_by_model_opponent_and_outcome(
    reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]
) -> None:
    shown = examples.usual_examples()
    opened(reader, pages, "usual")
    best = reports["usual"]["order"][0]
    every = chosen(shown, best, None, {"win", "tie", "lose"})
    assert now(reader)["place"] == f"1 of {len(every)}"
    assert now(reader)["name-one"] == shown["models"][best]
    for name, results, word in (("won", {"win"}, "Won."), ("tied", {"tie"}, "Tied:"), ("lost", {"lose"}, "Lost.")):
        for model, other in ((0, 3), (3, 0), (2, None)):
            pick(reader, "one", shown["models"][model])
            pick(reader, "other", "any" if other is None else shown["models"][other])
            pick(reader, "outcome", name)
            found = chosen(shown, model, other, results)
            told = now(reader)
            assert told["place"] == (f"1 of {len(found)}" if found else "0 of 0")
            if found:
                assert told["result"].startswith(word)
                assert told["name-one"] == shown["models"][model]
                assert other is None or told["name-other"] == shown["models"][other]
            assert bool(reader.shown("[data-nothing]")) is not bool(found)
    assert not Select(reader.find("[name=other]")).options[1 + reports["usual"]["order"].index(2)].is_enabled()
    assert reader.complaints == []


def test_an_opponent_that_is_chosen_as_the_model_is_no_longer_the_opponent(reader: Reader, pages: dict[str, Path]) -> None:
    opened(reader, pages, "usual")
    pick(reader, "one", examples.MODELS[0])
    pick(reader, "other", examples.MODELS[1])
    pick(reader, "one", examples.MODELS[1])
    assert Select(reader.find("[name=other]")).first_selected_option.text == "any"
    assert now(reader)["place"] != "0 of 0"


def test_texts_are_shown_as_they_are(reader: Reader, pages: dict[str, Path]) -> None:
    shown = examples.usual_examples()
    opened(reader, pages, "usual")
    pick(reader, "one", examples.MODELS[1])
    for battle in chosen(shown, 1, None, {"win", "tie", "lose"})[:5]:
        place, first, second, preference, choices, reasons = battle
        other = first if second == 1 else second
        question, told = shown["questions"][place], now(reader)
        assert told["title"] == f"Question {question['index']}"
        assert told["about"] == f"{question['capability']}, {question['language']}"
        assert told["question"] == question["text"]
        assert (told["answer-one"], told["answer-other"]) == (question["answers"][1], question["answers"][other])
        assert told["reasons"] == reasons
        words = {"A": shown["models"][first], "B": shown["models"][second], "both": "both good", "neither": "neither good"}
        orders = [
            f"ith {shown['models'][who]} shown first: {words[choice]}"
            for who, choice in zip((first, second), choices, strict=True)
        ]
        assert told["result"].endswith(f"W{orders[0]}; w{orders[1]}.")
        assert ("depends on the order" in told["result"]) is (preference == "tie")
        reader.find("[data-turn='1']").click()
    spaces = reader.run("return getComputedStyle(document.querySelector('[data-answer-one]')).whiteSpaceCollapse")
    assert spaces == "preserve", "the answers hold code"


def test_hostile_texts_are_shown_as_they_are(reader: Reader, pages: dict[str, Path]) -> None:
    shown = examples.hostile_examples()
    opened(reader, pages, "hostile")
    assert now(reader)["place"] == "1 of 5", "it opens with a model that has battles"
    pick(reader, "one", examples.TAKEN)
    for question in shown["questions"]:
        told = now(reader)
        for name in ("question", "answer-one", "answer-other", "reasons"):
            assert told[name] == question["text"]
        assert not {"\N{RIGHT-TO-LEFT OVERRIDE}", "\0"} & set(told["title"] + told["about"] + told["result"])
        reader.find("[data-turn='1']").click()
    assert reader.browser.title == "9 models compared"
    assert "Battles on 5 of 8 questions" in reader.shown("[data-examples] > .aside")[0]
    assert reader.complaints == []


def test_battles_are_turned_by_buttons_and_keys(reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]) -> None:
    shown = examples.usual_examples()
    opened(reader, pages, "usual")
    count = len(chosen(shown, reports["usual"]["order"][0], None, {"win", "tie", "lose"}))

    def place() -> int:
        text = now(reader)["place"]
        assert text.endswith(f" of {count}")
        return int(text.split()[0])

    back, forth = reader.find("[data-turn='-1']"), reader.find("[data-turn='1']")
    assert (place(), back.is_enabled(), forth.is_enabled()) == (1, False, True)
    forth.click()
    assert place() == 2
    stage = reader.find(".stage")
    for key, wanted in [
        (Keys.ARROW_RIGHT, 3),
        (Keys.ARROW_LEFT, 2),
        (Keys.END, count),
        (Keys.ARROW_RIGHT, count),
        (Keys.ARROW_LEFT, count - 1),
        (Keys.HOME, 1),
        (Keys.ARROW_LEFT, 1),
    ]:
        stage.send_keys(key)
        assert place() == wanted
    forth.click()
    back.click()
    assert reader.browser.switch_to.active_element == stage, "a button that can do no more keeps no focus"
    forth.send_keys(Keys.ARROW_RIGHT)
    assert place() == 2, "arrows work on the buttons too"
    chooser = reader.find("[name=outcome]")
    chooser.send_keys(Keys.ARROW_RIGHT)
    assert reader.find("[name=outcome]").get_property("value") == "win", "but in a list they choose from it"
    assert reader.complaints == []
