// A small line plot as inline SVG. Colours come from the style sheet.

import { h, svg } from "./dom.js";
import { span } from "./format.js";

const WIDTH = 300;
const HEIGHT = 100;

// series: [class, name, values]; values may hold null where nothing is known: the line has a gap there.
// `span`: ms from the first to the last of so many `points`.
export function plot(title, series, format, points, ms) {
  const top = Math.max(...series.flatMap(([, , values]) => values.map((value) => value ?? 0)), 0);
  const x = (place) => (WIDTH * place) / Math.max(1, points - 1);
  const y = (value) => HEIGHT * (1 - value / (top || 1));
  const last = (values) => (values.length && values.at(-1) !== null ? format(values.at(-1)) : "–");
  const now = series.map(([, name, values]) => `${name} ${last(values)}`).join(", ");
  return h("figure", null,
    h("div", { class: "plot" },
      h("div", { class: "scale", "aria-hidden": "true" },
        [1, 0.5, 0].map((share) => h("span", null, top || !share ? format(top * share) : "\u00a0"))),
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${now}` },
        [0, HEIGHT / 2, HEIGHT].map((height) => svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: height, y2: height })),
        series.map(([kind, , values]) => runs(values, points - values.length).map((run) => svg("polyline", {
          class: kind,
          points: run.map(([place, value]) => `${x(place)},${y(value)}`).join(" "),
        })))),
      h("div", { class: "times", "aria-hidden": "true" }, h("span", null, `${span(ms)} ago`), h("span", null, "now"))),
    h("figcaption", { class: "legend" },
      series.map(([kind, name, values]) => h("span", null, h("i", { class: kind }), `${name} ${last(values)}`))));
}

// Values without gaps, each with its place. One alone becomes a short line.
function runs(values, first) {
  const found = [];
  let run = [];
  values.forEach((value, at) => {
    if (value !== null) run.push([first + at, value]);
    if (run.length && (value === null || at === values.length - 1)) {
      found.push(run.length === 1 ? [[run[0][0] - 0.3, run[0][1]], run[0]] : run);
      run = [];
    }
  });
  return found;
}
