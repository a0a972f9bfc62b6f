"use strict";

// Sorts tables, shows one part of the statistics at a time, and turns the pages of the battles. Without it the page shows all figures.

const all = (selector, place = document) => [...place.querySelectorAll(selector)];

// Tables.

const valueOf = (row, column) => {
  const cell = row.cells[column];
  const text = (cell.dataset.value ?? cell.textContent).trim().replaceAll(",", "").replace("−", "-").replace("%", "");
  return text === "" || Number.isNaN(Number(text)) ? null : Number(text);
};

const nameOf = (row, column) => row.cells[column].textContent.trim();

// A model's name and its rank first go up, all else down. What is missing stands last either way.
function sortBy(table, column, heading) {
  const kind = heading.dataset.sort;
  const order = { ascending: "descending", descending: "ascending" }[heading.getAttribute("aria-sort")] ?? (kind === "number" ? "descending" : "ascending");
  const turn = order === "descending" ? -1 : 1;
  const keyed = [...table.tBodies[0].rows].map((row) => [row, kind === "text" ? nameOf(row, column) : valueOf(row, column)]);
  keyed.sort(([, left], [, right]) => {
    if (left === null || right === null) return (left === null) - (right === null);
    return turn * (kind === "text" ? left.localeCompare(right, "en", { numeric: true }) : left - right);
  });
  for (const other of all("[aria-sort]", table)) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  table.tBodies[0].append(...keyed.map(([row]) => row));
}

for (const table of all("[data-sortable]")) {
  for (const heading of all("th[data-sort]", table)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, heading.cellIndex, heading));
  }
}

// Parts of the statistics.

const part = document.querySelector("[name=part]");

function showPart() {
  for (const element of all("[data-part]")) element.hidden = element.dataset.part !== part.value;
}

if (part) {
  part.closest("[data-bar]").hidden = false;
  part.addEventListener("change", showPart);
  showPart();
}

// Battles.

const held = document.getElementById("data");
if (held) readBattles(JSON.parse(held.textContent));

function readBattles({ models, questions, battles }) {
  const viewer = document.querySelector("[data-examples]");
  const find = (name) => viewer.querySelector(`[${name}]`);
  const [one, other, outcome] = ["one", "other", "outcome"].map((name) => viewer.querySelector(`[name=${name}]`));
  const [back, forth] = all("[data-turn]", viewer);
  let shown = [];
  let place = 0;

  // A battle is a list: question, model A, model B, preference, choices by order, reasons.
  const OUTCOMES = { A: "win", B: "lose" };
  const seen = (battle, model) => {
    const result = OUTCOMES[battle[3]] ?? (battle[3] === null ? "" : "tie");
    return battle[1] === model ? result : { win: "lose", lose: "win" }[result] ?? result;
  };

  function choose() {
    const model = Number(one.value);
    for (const option of other.options) option.disabled = option.value === one.value;
    if (other.selectedOptions[0].disabled) other.value = "";
    const against = other.value === "" ? null : Number(other.value);
    shown = battles.filter((battle) => {
      const [, first, second] = battle;
      const meets = first === model ? second : second === model ? first : null;
      if (meets === null || (against !== null && meets !== against)) return false;
      return outcome.value === "" || seen(battle, model) === outcome.value;
    });
    place = 0;
    show();
  }

  function show() {
    const battle = shown[place];
    find("data-battle").hidden = !battle;
    find("data-nothing").hidden = Boolean(battle);
    find("data-place").textContent = battle ? `${place + 1} of ${shown.length}` : "0 of 0";
    back.disabled = place <= 0;
    forth.disabled = place >= shown.length - 1;
    if (!battle) return;
    const [asked, first, second, , , reasons] = battle;
    const model = Number(one.value);
    const opponent = first === model ? second : first;
    const question = questions[asked];
    find("data-title").textContent = `Question ${question.index}`;
    find("data-about").textContent = [question.capability, question.language].filter(Boolean).join(", ");
    find("data-question").textContent = question.text;
    for (const [name, who] of [["one", model], ["other", opponent]]) {
      find(`data-name-${name}`).textContent = models[who];
      find(`data-answer-${name}`).textContent = question.answers[who] ?? "";
    }
    find("data-result").replaceChildren(...resultOf(battle, model));
    find("data-reasons").textContent = reasons ?? "";
    find("data-reasoned").hidden = !reasons;
    for (const text of all(".text", viewer)) text.scrollTop = 0;
  }

  // Names are isolated, so that their direction does not turn the sentence round.
  const isolated = (text) => {
    const element = document.createElement("bdi");
    element.textContent = text;
    return element;
  };

  function resultOf(battle, model) {
    const [, first, second, preference, choices] = battle;
    const why = { both: "both answers are good", neither: "neither answer is good", tie: "the choice depends on the order" }[preference];
    const result = { win: "Won", lose: "Lost", tie: "Tied", "": "Not scored" }[seen(battle, model)];
    const chosen = (choice) => ({ both: "both good", neither: "neither good" })[choice] ?? isolated(models[choice === "A" ? first : second]);
    const orders = choices.flatMap((choice, at) => [
      at ? "; with " : " With ",
      isolated(models[at ? second : first]),
      " shown first: ",
      chosen(choice),
    ]);
    return [why ? `${result}: ${why}.` : `${result}.`, ...orders, ...(orders.length ? ["."] : [])];
  }

  for (const select of [one, other, outcome]) select.addEventListener("change", choose);
  for (const button of [back, forth]) {
    button.addEventListener("click", () => {
      place += Number(button.dataset.turn);
      show();
      if (button.disabled) viewer.querySelector(".stage").focus(); // a button that can do no more keeps no focus
    });
  }
  viewer.addEventListener("keydown", (event) => {
    const last = Math.max(0, shown.length - 1);
    const next = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: last }[event.key];
    if (next === undefined || event.target.matches("select") || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    place = Math.min(Math.max(0, next), last);
    show();
    if (event.target.disabled) viewer.querySelector(".stage").focus();
  });
  // Whoever has a battle here is shown first, for not every question's battles are.
  const met = new Set(battles.flatMap(([, first, second]) => [first, second]));
  one.value = [...one.options].find((option) => met.has(Number(option.value)))?.value ?? one.value;
  viewer.hidden = false;
  choose();
}
