"use strict";

// Draws the charts from the figures that the page holds, and shows what is chosen of it. Without it the page shows everything.

const study = JSON.parse(document.getElementById("data").textContent);
const filters = document.querySelector("[data-filters]");
const narrow = matchMedia("(max-width: 44rem)");
const stacked = matchMedia("(max-width: 60rem)");
const NARROW_APART = 20; // pixels more between two attributes, for the name that stands above the marks
const TALL = 900; // pixels of height from which on a chart has its axis where reading begins

const all = (selector, place = document) => [...place.querySelectorAll(selector)];

// What is chosen.

const kinds = Object.keys(study.attributes);
const chosen = { kind: kinds[0], models: study.models.map((_, number) => number), every: false };

function choose() {
  const given = new FormData(filters);
  chosen.kind = given.get("kind") ?? kinds[0];
  if (study.models.length > 1) chosen.models = given.getAll("model").map(Number);
  chosen.every = given.has("every");
}

function isShown(element) {
  const { kind, model } = element.dataset;
  return (kind === undefined || kind === chosen.kind) && (model === undefined || chosen.models.includes(Number(model)));
}

function showChosen() {
  for (const element of all("[data-kind], [data-model]")) element.hidden = !isShown(element);
  for (const none of all("[data-none]")) {
    const items = all(":scope > [data-list] > *", none.parentElement);
    none.hidden = items.some((item) => !item.hidden);
  }
  const every = filters.querySelector("[data-every]");
  const attributes = study.attributes[chosen.kind] ?? [];
  every.hidden = attributes.length <= study.most;
  every.querySelector("[data-count]").textContent = `${attributes.length} ${study.plural[chosen.kind]}`;
}

// Charts.

const sets = Object.fromEntries(
  Object.entries(study.sets).map(([name, of]) => [name, Object.entries(of).flatMap(([kind, held]) => rowsFrom(kind, held))]),
);

function rowsFrom(kind, columns) {
  const fields = Object.keys(columns);
  const row = (place) => Object.fromEntries(fields.map((field) => [field, columns[field][place]]));
  return (columns[fields[0]] ?? []).map((_, place) => ({ kind, ...row(place) }));
}

const compare = (one, other) => one - other;

function rowsOf(chart) {
  const rows = sets[chart.of].filter((row) => isOf(row, chart.kind ?? chosen.kind));
  const order = [...new Set(rows.map((row) => row.attribute))];
  if (chart.sort) {
    const sign = chart.sort.startsWith("-") ? -1 : 1;
    const field = chart.sort.replace("-", "");
    const means = new Map(order.map((attribute) => [attribute, mean(rows, attribute, field, sign)]));
    order.sort((one, other) => compare(means.get(one), means.get(other)) || compare(one, other));
  }
  const places = new Map(order.slice(0, chosen.every ? undefined : study.most).map((attribute, place) => [attribute, place]));
  return rows
    .filter((row) => places.has(row.attribute))
    .filter((row) => row.other_place === undefined || chosen.every || row.other_place <= study.most)
    .sort((one, other) => compare(places.get(one.attribute), places.get(other.attribute)));
}

function isOf(row, kind) {
  return (row.kind === undefined || row.kind === kind) && (row.model == null || chosen.models.includes(row.model));
}

function mean(rows, attribute, field, sign) {
  const values = rows.filter((row) => row.attribute === attribute && row[field] !== null).map((row) => row[field]);
  return values.length ? (sign * values.reduce((sum, value) => sum + value, 0)) / values.length : Number.MAX_VALUE;
}

function named(row) {
  const attributes = study.attributes[row.kind];
  const made = { ...row };
  for (const [field, names] of [["attribute", attributes], ["other", attributes], ["model", study.models]]) {
    if (row[field] == null) continue;
    made[field] = names[row[field]].name;
    made[`${field}_key`] = names[row[field]].key;
  }
  if (row.place !== undefined) made.attribute_numbered = made.attribute_key.replace("|", `|${row.place}  `);
  if (row.model != null) made.colour = study.look.category[row.model];
  return made;
}

function specOf(chart, rows, width, bare) {
  const lanes = chart.byModel ? Math.max(1, chosen.models.length) : 1;
  const inner = lanes * chart.lane;
  const apart = chart.apart + study.apartByLane * (lanes - 1) + (narrow.matches ? NARROW_APART : 0);
  const padding = apart / (inner + apart);
  const height = (inner + apart) * new Set(rows.map((row) => row.attribute)).size;
  const groups = new Set(rows.map((row) => row.of)).size;
  const look = narrow.matches ? study.narrow : study.wide;
  const above = narrow.matches ? { labelOffset: -inner / 2 - 11 } : {};
  const beside = bare ? { labels: false, minExtent: 0, maxExtent: 0 } : {};
  return {
    ...chart.spec,
    height,
    datasets: { rows: rows.map(named), means: study.means.filter((row) => isOf(row)).map(named) },
    config: {
      ...look,
      axisYBand: { ...look.axisYBand, ...above, ...beside },
      axisXQuantitative: { ...look.axisXQuantitative, orient: height > TALL ? "top" : "bottom" },
      axisTop: { ...look.axisTop, labelLimit: Math.floor((width - (narrow.matches ? 0 : study.labelWidth)) / groups) - 8 },
      range: {
        category: chosen.models.map((number) => study.look.category[number]),
        symbol: chosen.models.map((number) => study.look.symbol[number]),
      },
      scale: Object.fromEntries(Object.entries(study.paddings).map(([name, part]) => [name, part * padding])),
    },
  };
}

const OPTIONS = {
  ast: true, // read by the interpreter: no text becomes code
  actions: false,
  defaultStyle: false,
  renderer: "svg",
  tooltip: { disableDefaultStyle: true },
};
const views = new Map();
let wanted = 0;
let drawing = false;

// One drawing at a time: what is chosen meanwhile is drawn afterwards, in place of the rest.
async function draw() {
  wanted += 1;
  if (drawing) return;
  drawing = true;
  for (let done = 0; done !== wanted; ) {
    done = wanted;
    for (const place of all("[data-chart]")) {
      if (done === wanted) await drawChart(place);
    }
  }
  drawing = false;
  document.body.dataset.drawn = wanted;
}

async function drawChart(place) {
  const sheet = place.firstElementChild; // Vega gives it a role and words of its own
  const name = place.dataset.chart;
  const chart = study.charts[name];
  const rows = rowsOf(chart);
  views.get(name)?.finalize();
  views.delete(name);
  place.hidden = !rows.length;
  place.parentElement.querySelector("[data-nothing]").hidden = !place.hidden;
  if (place.hidden) {
    sheet.replaceChildren();
    return;
  }
  place.setAttribute("aria-label", wordsOf(place, chart, rows));
  const columns = chart.cell && new Set(rows.map((row) => `${row.of} ${row.score} ${row.other_place}`)).size;
  place.style.maxWidth = columns ? `${columns * chart.cell + study.labelWidth}px` : "";
  place.style.minHeight = `${place.offsetHeight}px`; // so that the page does not jump
  const first = place.closest(".pair")?.querySelector("[data-chart]");
  const bare = first && first.getBoundingClientRect().right <= place.getBoundingClientRect().left;
  try {
    views.set(name, await window.vegaEmbed(sheet, specOf(chart, rows, place.clientWidth, bare), OPTIONS));
  } catch (error) {
    console.error(`The chart ${name} cannot be drawn`, error);
  }
  place.style.minHeight = "";
}

function wordsOf(place, chart, rows) {
  const attributes = new Set(rows.map((row) => row.attribute)).size;
  const models = chosen.models.map((number) => study.models[number].name);
  const of = chart.byModel && models.length ? ` of ${models.join(", ")}` : "";
  const what = `${attributes} ${study.plural[chart.kind ?? chosen.kind]}`;
  return `${place.dataset.words} of ${what}${of}. The table that follows has the figures.`;
}

function update() {
  choose();
  showChosen();
  showSamples();
  const who = study.models.length > 1 ? ` of ${chosen.models.length} of ${study.models.length} models` : "";
  document.querySelector("[data-spoken]").textContent = `Showing ${study.plural[chosen.kind] ?? "nothing"}${who}`;
  draw();
}

// Examples.

const viewer = document.querySelector("[data-samples]");
const stage = viewer?.querySelector("[data-stage]");
const articles = viewer ? all("[data-sample]", viewer) : [];
const picked = { shown: [], place: 0 };

function showSamples() {
  if (!viewer) return;
  const now = picked.shown[picked.place];
  const model = viewer.querySelector("[name=sample-model]");
  for (const option of model?.options ?? []) {
    option.hidden = option.disabled = option.value !== "" && !chosen.models.includes(Number(option.value));
  }
  if (model?.selectedOptions[0].disabled) model.value = "";
  const attribute = viewer.querySelector("[name=sample-attribute]")?.value ?? "";
  picked.shown = articles.filter(({ dataset }) => {
    const among = dataset.of === undefined || chosen.models.includes(Number(dataset.of));
    return among && (!model?.value || dataset.of === model.value) && (!attribute || dataset.attribute === attribute);
  });
  picked.place = Math.max(0, picked.shown.indexOf(now));
  showSample();
}

function showSample() {
  const { shown, place } = picked;
  for (const article of articles) article.hidden = article !== shown[place];
  stage.hidden = !shown.length;
  viewer.querySelector("[data-nothing]").hidden = shown.length > 0;
  viewer.querySelector("[data-place]").textContent = shown.length ? `${place + 1} of ${shown.length}` : "0 of 0";
  const [back, forth] = all("[data-turn]", viewer);
  back.disabled = place <= 0;
  forth.disabled = place >= shown.length - 1;
}

function turnTo(place) {
  picked.place = Math.min(Math.max(0, place), Math.max(0, picked.shown.length - 1));
  showSample();
}

const KEYS = { ArrowLeft: () => picked.place - 1, ArrowRight: () => picked.place + 1, Home: () => 0, End: () => Infinity };

if (viewer) {
  viewer.querySelector("[data-bar]").hidden = false;
  for (const button of all("[data-turn]", viewer)) {
    button.addEventListener("click", () => {
      turnTo(picked.place + Number(button.dataset.turn));
      // A button that can do no more keeps no focus, and with it the keys would be lost.
      if (button.disabled) stage.focus();
    });
  }
  for (const select of all("select", viewer)) select.addEventListener("change", showSamples);
  viewer.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.target.matches("select") || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    turnTo(KEYS[event.key]());
  });
}

document.documentElement.classList.add("scripted");
filters.hidden = kinds.length < 2 && study.models.length < 2 && (study.attributes[kinds[0]] ?? []).length <= study.most;
filters.addEventListener("change", update);
filters.addEventListener("submit", (event) => event.preventDefault());
for (const query of [narrow, stacked]) query.addEventListener("change", draw);
update();
