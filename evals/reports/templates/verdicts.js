"use strict";
// Texts are anybody's: they are set as text, never as markup.
(async () => {
  const ROWS = 100;
  const LONGEST = 200;  // characters of a name or a label in a list
  const FILTERS = 4;  // scores whose filters stand in the open
  const form = document.querySelector(".filters");
  const table = document.querySelector("table.verdicts");
  const body = table.tBodies[0];
  const pages = document.querySelector(".pages");
  const count = document.querySelector("[data-count]");
  const parts = document.querySelectorAll("script[data-part]");
  const opened = new Map();

  const unpack = async (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };
  const part = (number) => {
    if (!opened.has(number)) opened.set(number, unpack(parts[number]));
    return opened.get(number);
  };
  const make = (name, text, ...children) => {
    const element = document.createElement(name);
    if (text !== null && text !== undefined) { element.textContent = text; element.dir = "auto"; }
    element.append(...children);
    return element;
  };
  const number = (value) => value.toLocaleString("en-GB");
  const figure = (score) => {
    if (Number.isInteger(score) || Math.abs(score) >= 1e6) return String(score);
    return Math.abs(score) < 0.001 ? score.toPrecision(3) : String(Math.round(score * 1000) / 1000);
  };
  const worded = (score) => (score === null ? "–" : typeof score === "number" ? figure(score) : String(score));
  const brief = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

  const spelt = (fact) => (JSON.stringify(fact).length < 100 ? JSON.stringify(fact) : JSON.stringify(fact, null, 1));

  const index = await unpack(document.querySelector("script[data-index]"));
  const choices = index.metrics.map((metric, place) => {
    const values = new Map();
    for (const row of index.rows) {
      if (row[1] === "scored") values.set(row[3 + place], (values.get(row[3 + place]) || 0) + 1);
    }
    const sorted = [...values].sort(([a], [b]) => (a === null) - (b === null) || (typeof a === "number" ? a - b : String(a).localeCompare(b)));
    const numbers = sorted.filter(([value]) => typeof value === "number");
    return { metric, place, values: sorted, many: numbers.length > 12 };
  });

  const option = (value, text) => { const one = make("option", text); one.value = value; return one; };
  for (const [status, many] of Object.entries(index.statuses)) form.elements.status.append(option(status, `${status} (${number(many)})`));
  let filters = form;
  if (choices.length > FILTERS) {
    filters = make("div");
    const details = make("details", null, make("summary", "Scores"), filters);
    details.open = !matchMedia("(max-width: 44rem)").matches;
    form.append(details);
  }
  for (const choice of choices) {
    const metric = brief(choice.metric);
    if (choice.many) {
      for (const [end, words] of [["least", "at least"], ["most", "at most"]]) {
        const input = document.createElement("input");
        Object.assign(input, { type: "number", step: "any", name: `${end} ${choice.place}` });
        filters.append(make("label", null, `${metric} ${words} `, input));
      }
    } else {
      const select = document.createElement("select");
      select.name = `score ${choice.place}`;
      select.append(option("", "all"), ...choice.values.map(([value, many], at) => option(String(at), `${value === null ? "does not apply" : brief(worded(value))} (${number(many)})`)));
      filters.append(make("label", null, `${metric} `, select));
    }
    table.tHead.rows[0].append(make("th", metric));
  }
  const reasoned = index.reasons.length > 0;
  if (reasoned) table.tHead.rows[0].append(make("th", "reason"));

  let shown = [];
  let first = 0;
  const filter = () => {
    const words = form.elements.words.value.trim().toLowerCase();
    const status = form.elements.status.value;
    const reasons = new Set(index.reasons.flatMap((reason, at) => (reason.toLowerCase().includes(words) ? [at] : [])));
    const tests = choices.flatMap(({ place, values, many }) => {
      const at = 3 + place;
      if (!many) {
        const chosen = form.elements[`score ${place}`].value;
        return chosen === "" ? [] : [(row) => row[1] === "scored" && row[at] === values[Number(chosen)][0]];
      }
      const [least, most] = ["least", "most"].map((end) => form.elements[`${end} ${place}`].value);
      return [
        ...(least === "" ? [] : [(row) => row[at] !== null && row[at] >= Number(least)]),
        ...(most === "" ? [] : [(row) => row[at] !== null && row[at] <= Number(most)]),
      ];
    });
    shown = [];
    index.rows.forEach((row, at) => {
      if (status && row[1] !== status) return;
      if (words && !row[0].toLowerCase().includes(words) && !reasons.has(row[2])) return;
      if (tests.every((test) => test(row))) shown.push(at);
    });
    first = 0;
    show();
  };

  const show = () => {
    const all = index.rows.length;
    count.textContent = shown.length === all ? `${number(all)} verdicts` : `${number(shown.length)} of ${number(all)} verdicts`;
    body.replaceChildren(...shown.slice(first, first + ROWS).map(line));
    pages.hidden = shown.length <= ROWS;
    pages.querySelector("[data-shown]").textContent = `${number(first + 1)} to ${number(Math.min(first + ROWS, shown.length))}`;
    pages.querySelector('[data-step="-1"]').disabled = first === 0;
    pages.querySelector('[data-step="1"]').disabled = first + ROWS >= shown.length;
  };

  const line = (at) => {
    const [id, status, reason, ...scores] = index.rows[at];
    const button = make("button", brief(id));
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    const row = make("tr", null, make("td", null, button), make("td", status));
    row.cells[1].dataset.name = "status";
    scores.forEach((score, place) => {
      const cell = row.appendChild(make("td"));
      if (status !== "scored") return;
      cell.dataset.name = brief(index.metrics[place]);
      const text = make("span", brief(worded(score)));
      if (typeof score === "string") text.className = "words";
      cell.append(text);
    });
    if (reasoned) {
      const why = row.appendChild(make("td", reason === null ? "" : index.reasons[reason]));
      why.className = "why";
      if (reason !== null) why.dataset.name = "reason";
    }
    button.addEventListener("click", () => toggle(row, button, at));
    return row;
  };

  const toggle = async (row, button, at) => {
    if (button.getAttribute("aria-expanded") === "true") {
      button.setAttribute("aria-expanded", "false");
      row.nextElementSibling.remove();
      return;
    }
    button.setAttribute("aria-expanded", "true");
    const cell = document.createElement("td");
    cell.colSpan = row.cells.length;
    const inside = make("tr", null, cell);
    inside.className = "opened";
    row.after(inside);
    const texts = (await part(Math.floor(at / index.part)))[at % index.part];
    const section = make("section");
    texts.answers.forEach((answer, which) => section.append(make("h3", texts.answers.length > 1 ? `answer ${which + 1}` : "answer"), make("pre", answer)));
    if (texts.without) section.append(make("p", texts.without));
    const prompts = texts.prompts.flatMap((prompt, which) => prompt.map(([role, content]) => {
      const text = make("pre", content);
      const name = texts.prompts.length > 1 ? `prompt ${which + 1}` : "prompt";
      section.append(make("h3", role === "prompt" ? name : `${name}, ${role}`), text);
      return text;
    }));
    const facts = make("dl");
    const [id, , , ...scores] = index.rows[at];
    for (const [name, whole] of [["id", id], ...index.metrics.map((metric, place) => [metric, worded(scores[place])])]) {
      if (brief(whole) !== whole) facts.append(make("dt", brief(name)), make("dd", whole));
    }
    for (const [name, fact] of Object.entries(texts.facts)) {
      facts.append(make("dt", name), make("dd", typeof fact === "string" ? fact : Array.isArray(fact) ? fact.join("\n") : spelt(fact)));
    }
    section.append(facts);
    cell.append(section);
    for (const text of prompts) text.scrollTop = text.scrollHeight;  // what is judged stands at a prompt's end
  };

  for (const event of ["input", "change"]) form.addEventListener(event, filter);  // some browsers send one of them
  form.addEventListener("submit", (event) => event.preventDefault());
  pages.addEventListener("click", (event) => {
    const step = Number(event.target.dataset.step);
    if (!step) return;
    first += step * ROWS;
    show();
    table.scrollIntoView();
  });
  form.hidden = table.hidden = false;
  filter();
})();
