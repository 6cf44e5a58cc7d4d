// A small line plot as inline SVG. Colours come from the style sheet.

import { h, svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 100;

// series: [class, name, values]; values may hold null where nothing is known.
export function plot(title, series, format, points) {
  const top = Math.max(...series.flatMap(([, , values]) => values.map((value) => value ?? 0)), 0);
  const x = (place) => (WIDTH * place) / Math.max(1, points - 1);
  const y = (value) => HEIGHT * (1 - value / (top || 1));
  const now = series.map(([, name, values]) => `${name} ${format(values.at(-1) ?? 0)}`).join(", ");
  return h("figure", null,
    h("div", { class: "plot" },
      h("div", { class: "scale", "aria-hidden": "true" },
        [1, 0.5, 0].map((share) => h("span", null, top || !share ? format(top * share) : "\u00a0"))),
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${now}` },
        [0, HEIGHT / 2, HEIGHT].map((height) => svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: height, y2: height })),
        series.map(([kind, , values]) => svg("polyline", {
          class: kind,
          points: values.map((value, place) =>
            (value === null ? "" : `${x(points - values.length + place)},${y(value)}`)).join(" "),
        })))),
    h("figcaption", { class: "legend" },
      series.map(([kind, name, values]) => h("span", null, h("i", { class: kind }), `${name} ${format(values.at(-1) ?? 0)}`))));
}
