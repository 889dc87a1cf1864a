"use strict";
// Everything works without this file; with it, what changes is shown as it changes, and curves are drawn.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const drawn = [];

function axes(x) {
  const look = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 0.5 }, ticks: { stroke: css("--line") } };
  const short = new Intl.NumberFormat("en", { notation: "compact" });
  const y = { size: 56, values: (u, ticks) => ticks.map((tick) => short.format(tick)) };
  return [Object.assign({}, look, x), Object.assign(y, look)];
}

function draw(place, charts) {
  const kind = place.dataset.chart;
  const size = { width: Math.max(place.clientWidth, 120), height: 220, legend: { show: false }, cursor: { show: false } };
  let options, data;
  if (kind === "money") {
    data = charts.money;
    options = { axes: axes({}), series: [{}, { stroke: css("--blue"), width: 2 }, { stroke: css("--red"), width: 2, dash: [6, 4] }] };
  } else if (kind === "prices") {
    data = charts.prices;
    options = { axes: axes({}), scales: { y: { range: (u, low, high) => [0, Math.max(high * 1.1, 0.05)] } },
      series: [{}, { stroke: css("--blue"), width: 2 }, { stroke: css("--red"), width: 2, dash: [6, 4] }] };
  } else {
    const rows = charts.reliability;
    const line = rows.map((row) => row.said);
    data = [line, line, rows.map((r) => r.happened), rows.map((r) => r.low), rows.map((r) => r.high)];
    const bars = { drawSeries: [(u, index) => { if (index === 2) intervals(u); }] };
    options = { axes: axes({}), scales: { x: { time: false, range: [0, 1] }, y: { range: [0, 1] } }, hooks: bars,
      series: [{}, { stroke: css("--dim"), dash: [4, 4] }, { stroke: css("--blue"), width: 0, paths: () => null, points: { show: true, size: 8, fill: css("--blue") } },
        { stroke: css("--blue"), paths: () => null, points: { show: false } }, { stroke: css("--blue"), paths: () => null, points: { show: false } }] };
  }
  if (!data[0] || data[0].length === 0) { place.textContent = "Nothing to draw yet."; return; }
  place.textContent = "";
  drawn.push(new uPlot(Object.assign(size, options), data, place));
}

function intervals(u) {
  const pen = u.ctx;
  pen.save();
  pen.strokeStyle = css("--blue");
  pen.lineWidth = 2;
  u.data[0].forEach((x, k) => {
    const at = u.valToPos(x, "x", true);
    pen.beginPath();
    pen.moveTo(at, u.valToPos(u.data[3][k], "y", true));
    pen.lineTo(at, u.valToPos(u.data[4][k], "y", true));
    pen.stroke();
  });
  pen.restore();
}

async function drawAll() {
  const places = [...document.querySelectorAll("[data-chart]")];
  if (places.length === 0) return;
  const answer = await fetch(places[0].dataset.from);
  if (!answer.ok) return;
  const charts = await answer.json();
  drawn.splice(0).forEach((chart) => chart.destroy());
  places.forEach((place) => draw(place, charts));
}

async function renew(parts) {
  if (parts.length > 0) {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      parts.forEach((part) => {
        const fresh = page.getElementById(part.id);
        if (fresh && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
      });
    }
  }
}

async function refresh() {
  await renew([...document.querySelectorAll("[data-live]")]);
  await drawAll();
  countDown();
}

// The slider of the desk: what another capital would have meant.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const money = (units) => whole.format(units).replaceAll(",", "\u202f");
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const tried = { trial: null, at: 0, charts: [] };

function drawTried(place) {
  const points = tried.trial.points, kind = place.dataset.tryChart;
  const above = (value) => (value > 0 ? value : null); // there is no logarithm of 0
  const x = points.map((_, k) => k); // each capital is twice the one before
  const line = { stroke: css("--blue"), width: 2, points: { show: true, size: 6, fill: css("--blue") } };
  const dashed = { stroke: css("--red"), width: 2, dash: [6, 4], points: { show: false } };
  const short = new Intl.NumberFormat("en", { notation: "compact" });
  const named = (u, ticks) => ticks.map((k) => (points[k] ? short.format(points[k].capital) : ""));
  const both = axes({ values: named, incrs: [1, 2, 3, 4, 6], space: 44 });
  let data, series, y;
  if (kind === "premium") {
    [data, series, y] = [[x, points.map((p) => 100 * p.premium)], [{}, line], { range: (u, low, high) => [Math.min(0, low), Math.max(high * 1.1, 1)] }];
  } else {
    [data, series, y] = [[x, points.map((p) => above(p.worst)), points.map((p) => p.certified)], [{}, line, dashed], { distr: 3 }];
    both[1].values = (u, ticks) => ticks.map((tick) => (tick === null ? "" : short.format(tick)));
  }
  const mark = (u) => {
    const at = u.valToPos(x[tried.at], "x", true), pen = u.ctx;
    pen.save();
    pen.strokeStyle = css("--ink");
    pen.lineWidth = 2;
    pen.setLineDash([]);
    pen.beginPath();
    pen.moveTo(at, u.bbox.top);
    pen.lineTo(at, u.bbox.top + u.bbox.height);
    pen.stroke();
    pen.restore();
  };
  place.textContent = "";
  return new uPlot({ width: Math.max(place.clientWidth, 120), height: 220, legend: { show: false }, cursor: { show: false },
    axes: both, scales: { x: { time: false }, y }, series, hooks: { draw: [mark] } }, data, place);
}

function drawAllTried() {
  if (!tried.trial) return;
  tried.charts.splice(0).forEach((chart) => chart.destroy());
  document.querySelectorAll("[data-try-chart]").forEach((place) => tried.charts.push(drawTried(place)));
}

function showTried() {
  const point = tried.trial.points[tried.at], own = point.capital === tried.trial.capital;
  const said = money(point.capital) + (own ? " (now)" : "");
  document.querySelector(".slide output").textContent = said;
  document.getElementById("capital").setAttribute("aria-valuetext", said);
  const shown = { premium: percent(point.premium), served: percent(point.served), worst: money(point.worst),
    certified: point.certified === null ? "no bound" : money(point.certified), carries: money(point.carries) };
  Object.entries(shown).forEach(([name, text]) => { document.querySelector(`[data-point=${name}]`).textContent = text; });
  tried.charts.forEach((chart) => chart.redraw(false)); // the curves stay, the mark moves
}

async function tryCapitals() {
  const place = document.getElementById("try");
  if (!place) return;
  const answer = await fetch(place.dataset.try);
  if (!answer.ok) return;
  const trial = await answer.json();
  await renew([document.getElementById("tried")]);
  if (trial.points.length === 0) return;
  tried.trial = trial;
  tried.at = Math.max(trial.points.findIndex((point) => point.capital === trial.capital), 0);
  const slider = document.getElementById("capital");
  slider.max = trial.points.length - 1;
  slider.value = tried.at;
  slider.addEventListener("input", () => { tried.at = Number(slider.value); showTried(); });
  place.querySelector(".slide").hidden = false;
  drawAllTried();
  showTried();
}

function countDown() {
  document.querySelectorAll("time[data-until]").forEach((place) => {
    const left = Math.round(Number(place.dataset.until) / 1e6 - Date.now() / 1000);
    const hours = Math.floor(left / 3600), minutes = Math.floor((left % 3600) / 60);
    if (left > 0) place.textContent = hours > 0 ? `in ${hours} h ${minutes} min` : `in ${minutes} min ${left % 60} s`;
    else place.textContent = "closed";
  });
}

document.addEventListener("DOMContentLoaded", () => {
  drawAll();
  tryCapitals();
  countDown();
  setInterval(countDown, 1000);
  const book = document.body.dataset.book;
  if (!book) return;
  let waiting = false;
  const source = new EventSource("/live");
  source.addEventListener("changed", (event) => {
    if (JSON.parse(event.data).book !== book || waiting || document.hidden) return;
    waiting = true; // at most one look in two seconds
    setTimeout(async () => { try { await refresh(); } finally { waiting = false; } }, 2000);
  });
  window.addEventListener("pagehide", () => source.close());
  let size;
  window.addEventListener("resize", () => { clearTimeout(size); size = setTimeout(() => { drawAll(); drawAllTried(); }, 200); });
});
