// The model's card: what it was trained on, how good it is, and its parameters.
import { byId, make, number } from "./parts.js";
import { call, report } from "./server.js";

const SVG = "http://www.w3.org/2000/svg";

export async function showCard(model) {
  try {
    const { info, ...about } = await call(`/v1/models/${encodeURIComponent(model.name)}`);
    const data = info.data ?? {}, found = info.evaluation;
    byId("card-title").textContent = model.name;
    byId("card-content").replaceChildren(...[
      part("Model", {
        Method: info.method, Version: about.version, Trained: info.created && new Date(info.created).toLocaleString(),
        "Training time": info.seconds && `${info.seconds.toFixed(1)} s`, Size: `${(info.bytes / 1e6).toFixed(1)} MB`,
        Labels: number(about.labels), Languages: about.languages.join(", "), Taxonomy: about.taxonomy ? "yes" : "no",
        Threshold: about.threshold, "Learns from accepted examples": about.learns ? "yes" : "no", Error: about.error,
      }),
      part("Training data", {
        Examples: data.points && number(data.points), "Labels per example": data.labels_per_point?.toFixed(2),
        "Examples per label": data.points_per_label?.toFixed(1), "Head, torso and tail labels":
          data.head_labels !== undefined && [data.head_labels, data.torso_labels, data.tail_labels].map(number).join(", "),
        "Rows without labels": data.rows_without_labels, "Text features": info.text_features?.name,
      }),
      found ? part(`Figures on ${found.source ?? "held-out examples"}, in percent`,
        Object.fromEntries(Object.entries(found.figures ?? {}).map(([name, value]) => [name, value.toFixed(2)]))) : null,
      found?.calibration?.bins ? make("section", {}, make("h3", {}, "Calibration"), curve(found.calibration.bins)) : null,
      part("Parameters", Object.fromEntries(Object.entries(info.parameters ?? {}).map(([name, value]) => [name, String(value)]))),
      part("Libraries", info.libraries ?? {}),
    ].filter(Boolean));
  } catch (error) {
    report(error);
  }
}

function part(title, values) {
  const rows = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return make("section", {}, make("h3", {}, title), make("table", {}, make("tbody", {}, ...rows.map(([name, value]) =>
    make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, String(value)))))));
}

/** Score against the share of right labels, as a picture; the diagonal is perfect. */
function curve(bins) {
  const size = 200, drawing = (tag, values) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
    return made;
  };
  const image = drawing("svg", { viewBox: `-20 -5 ${size + 30} ${size + 30}`, role: "img",
    "aria-label": "Mean score of predicted labels against the share that is right" });
  image.append(drawing("path", { d: `M0 ${size}L${size} 0`, stroke: "currentColor", "stroke-dasharray": "4 4", fill: "none", opacity: 0.5 }));
  image.append(drawing("rect", { width: size, height: size, fill: "none", stroke: "currentColor", opacity: 0.4 }));
  const places = bins.filter((bin) => bin.count).map((bin) => [size * bin.score, size * (1 - bin.right)]);
  image.append(drawing("path", { d: places.map(([x, y], at) => `${at ? "L" : "M"}${x} ${y}`).join(""), stroke: "currentColor", "stroke-width": 2, fill: "none" }));
  for (const [x, y] of places) image.append(drawing("circle", { cx: x, cy: y, r: 3, fill: "currentColor" }));
  return image;
}
