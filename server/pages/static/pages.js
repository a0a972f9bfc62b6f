"use strict";

// Keeps what a page tells of unfinished batches and of models that are not ready up to date. Without it the page reloads itself.

// A browser opens six connections to a server at most, over all its tabs.
const STREAMS_AT_ONCE = 3;
const RETRY_MS = 10_000;
const MODELS_MS = 5_000;
const ENDED = ["completed", "cancelled", "failed"];

const figures = new Intl.NumberFormat("en-GB");
const batchWords = JSON.parse(document.body.dataset.batchWords);
const modelWords = JSON.parse(document.body.dataset.modelWords);

function put(place, selector, text) {
  const element = place.querySelector(selector);
  if (element && element.textContent !== text) element.textContent = text;
}

function show(selector, shown) {
  for (const element of document.querySelectorAll(selector)) element.hidden = !shown;
}

function speak(text) {
  put(document, "[data-spoken]", text);
}

// Followed in the order in which the server works on them, oldest first.
const waiting = [...document.querySelectorAll("[data-follow]")].reverse();
const streams = new Map();

function tell(place, batch) {
  const { total, completed, failed } = batch.request_counts;
  const done = completed + failed;
  const bar = place.querySelector("progress");
  if (done > bar.value) show("[data-news]", true);
  bar.max = total || 1;
  bar.value = total ? done : 1;
  put(place, "[data-status]", batchWords[batch.status]);
  for (const [name, count] of Object.entries({ done, total, completed, failed })) {
    put(place, `[data-count=${name}]`, figures.format(count));
  }
  show("[data-paused]", batch.paused !== null);
  put(document, "[data-why]", batch.paused ?? "");
  const tenth = total ? Math.floor((10 * done) / total) : 10;
  const first = place.dataset.tenth === undefined;
  if (!first && (tenth > Number(place.dataset.tenth) || ENDED.includes(batch.status))) {
    const counts = `${figures.format(done)} of ${figures.format(total)} lines, ${figures.format(failed)} failed`;
    speak(`${batch.id}: ${batchWords[batch.status]}, ${counts}.`);
  }
  place.dataset.tenth = tenth;
}

function follow(place) {
  const source = new EventSource(`/v1/batches/${place.dataset.follow}/events`);
  streams.set(place, source);
  const hear = (event) => {
    show("[data-lost]", false);
    tell(place, JSON.parse(event.data));
  };
  source.addEventListener("progress", hear);
  source.addEventListener("done", (event) => {
    hear(event);
    source.close();
    streams.delete(place);
    waiting.splice(waiting.indexOf(place), 1);
    followSome();
  });
  source.addEventListener("error", () => {
    show("[data-lost]", true);
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => {
      if (streams.get(place) === source) follow(place);
    }, RETRY_MS);
  });
}

function followSome() {
  if (document.hidden) return;
  for (const place of waiting) {
    if (streams.size >= STREAMS_AT_ONCE) return;
    if (!streams.has(place)) follow(place);
  }
}

function rest() {
  for (const source of streams.values()) source.close();
  streams.clear();
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : followSome()));
window.addEventListener("pagehide", rest);
window.addEventListener("pageshow", followSome);

async function tellContexts(rows) {
  const { data } = await (await fetch("/v1/models")).json();
  for (const row of rows) {
    const length = data.find((model) => model.id === row.dataset.model)?.max_model_len;
    if (!length) continue;
    put(row, "[data-context]", `${figures.format(length)} tokens`);
    row.querySelector("[data-context]").classList.remove("aside");
  }
}

async function lookAtModels() {
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
      if (unready.some((row) => row.dataset.state === "ready")) await tellContexts(rows);
    } catch {
      show("[data-lost]", true);
    }
  }
  if (rows.some((row) => row.dataset.state !== "ready")) setTimeout(lookAtModels, MODELS_MS);
}

if (document.querySelector("[data-model]:not([data-state=ready])")) setTimeout(lookAtModels, MODELS_MS);
