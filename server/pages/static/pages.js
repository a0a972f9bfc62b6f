"use strict";

// Keeps unfinished batches and models that are not ready up to date. Without scripts the page reloads itself.

// A browser opens at most six connections to a server, over all its tabs.
const STREAMS_AT_ONCE = 3;
const RETRY_MS = 10_000;
const MODELS_MS = 5_000;
const ENDED = ["completed", "cancelled", "failed"];

const figures = new Intl.NumberFormat("en-GB");
const batchWords = JSON.parse(document.body.dataset.batchWords);
const modelWords = JSON.parse(document.body.dataset.modelWords);

function put(parent, selector, text) {
  const element = parent.querySelector(selector);
  if (element && element.textContent !== text) element.textContent = text;
}

function show(selector, shown) {
  for (const element of document.querySelectorAll(selector)) element.hidden = !shown;
}

function speak(text) {
  put(document, "[data-spoken]", text);
}

// In the order in which the server works on them, oldest first.
const waiting = [...document.querySelectorAll("[data-follow]")].reverse();
const streams = new Map();

function update(row, batch) {
  const { total, completed, failed } = batch.request_counts;
  const done = completed + failed;
  const bar = row.querySelector("progress");
  if (done > bar.value) show("[data-news]", true);
  bar.max = total || 1;
  bar.value = total ? done : 1;
  put(row, "[data-status]", batchWords[batch.status]);
  for (const [name, count] of Object.entries({ done, total, completed, failed })) {
    put(row, `[data-count=${name}]`, figures.format(count));
  }
  show("[data-paused]", batch.paused !== null);
  put(document, "[data-why]", batch.paused ?? "");
  const tenth = total ? Math.floor((10 * done) / total) : 10;
  const first = row.dataset.tenth === undefined;
  if (!first && (tenth > Number(row.dataset.tenth) || ENDED.includes(batch.status))) {
    const counts = `${figures.format(done)} of ${figures.format(total)} lines, ${figures.format(failed)} failed`;
    speak(`${batch.id}: ${batchWords[batch.status]}, ${counts}.`);
  }
  row.dataset.tenth = tenth;
}

function follow(row) {
  const source = new EventSource(`/v1/batches/${row.dataset.follow}/events`);
  streams.set(row, source);
  const hear = (event) => {
    show("[data-lost]", false);
    update(row, JSON.parse(event.data));
  };
  source.addEventListener("progress", hear);
  source.addEventListener("done", (event) => {
    hear(event);
    source.close();
    streams.delete(row);
    waiting.splice(waiting.indexOf(row), 1);
    followSome();
  });
  source.addEventListener("error", () => {
    show("[data-lost]", true);
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => {
      if (streams.get(row) === source) follow(row);
    }, RETRY_MS);
  });
}

function followSome() {
  if (document.hidden) return;
  for (const row of waiting) {
    if (streams.size >= STREAMS_AT_ONCE) return;
    if (!streams.has(row)) follow(row);
  }
}

function rest() {
  for (const source of streams.values()) source.close();
  streams.clear();
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : followSome()));
window.addEventListener("pagehide", rest);
window.addEventListener("pageshow", followSome);

async function updateContexts(rows) {
  const { data } = await (await fetch("/v1/models")).json();
  for (const row of rows) {
    const length = data.find((model) => model.id === row.dataset.model)?.max_model_len;
    if (!length) continue;
    put(row, "[data-context]", `${figures.format(length)} tokens`);
    row.querySelector("[data-context]").classList.remove("aside");
  }
}

async function updateModels() {
  const rows = [...document.querySelectorAll("[data-model]")];
  if (!document.hidden) {
    try {
      const { models } = await (await fetch("/ready")).json();
      const unready = rows.filter((row) => row.dataset.state !== "ready");
      for (const row of rows) {
        const model = models[row.dataset.model];
        if (!model) continue;
        row.dataset.state = model.state;
        put(row, "[data-word]", modelWords[model.state]);
        put(row, "[data-reason]", model.reason ?? "");
        row.querySelector("[data-reason]").hidden = !model.reason;
        put(row, "[data-restarts]", figures.format(model.restarts));
      }
      if (unready.some((row) => row.dataset.state === "ready")) await updateContexts(rows);
    } catch {
      show("[data-lost]", true);
    }
  }
  if (rows.some((row) => row.dataset.state !== "ready")) setTimeout(updateModels, MODELS_MS);
}

if (document.querySelector("[data-model]:not([data-state=ready])")) setTimeout(updateModels, MODELS_MS);
