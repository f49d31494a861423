// The model's card: what it was trained on, how good it is, and its parameters.
import { reliability } from "./reliability.js";
import { byId, make, number, plural } from "./parts.js";
import { call, report } from "./server.js";

/** What the examples of figures are, by `examples_from`. */
const SETS = {
  "hold-out": (found) => `${plural(found.examples, "example")} held out of the training data`,
  validation: (found) => `${plural(found.examples, "example")} of ${found.source}, given to training to validate on`,
  test: (found) => `${plural(found.examples, "example")} of ${found.source}`,
};

export async function showCard(model) {
  try {
    const { info, ...about } = await call(`/v1/models/${encodeURIComponent(model.name)}`);
    const data = info.data ?? {}, measured = info.evaluation ?? [];
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
      ...(measured.length ? measured.map(figures) : [make("section", {}, make("h3", {}, "Figures"),
        make("p", { class: "quiet" }, "None yet. “labelspace evaluate MODEL TEST --save” measures the model on a test file."))]),
      part("Parameters", Object.fromEntries(Object.entries(info.parameters ?? {}).map(([name, value]) => [name, String(value ?? "none")]))),
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

/** Metrics and calibration on one set of examples, and how they were measured. */
function figures(found) {
  const names = Object.keys(found.figures).map((name) => name.split("@"));
  const families = [...new Set(names.map(([family]) => family))], ks = [...new Set(names.map(([, k]) => k))];
  const { ECE, k, bins } = found.calibration;
  return make("section", { class: "figures" },
    make("h3", {}, `Figures on ${SETS[found.examples_from](found)}`),
    found.added_since ? make("p", { class: "note" }, `Measured before the model learned from ${plural(found.added_since, "more example")}.`) : null,
    make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "percent"), ...ks.map((at) => make("th", { scope: "col", class: "number" }, `@${at}`)))),
      make("tbody", {}, ...families.map((family) => make("tr", {}, make("th", { scope: "row" }, family),
        ...ks.map((at) => make("td", { class: "number" }, found.figures[`${family}@${at}`]?.toFixed(2) ?? "")))))),
    bins.length ? reliability(bins, `Calibration of the first ${k} labels: expected error ${ECE.toFixed(2)} %`) : null,
    make("p", { class: "quiet" }, `${new Date(found.measured).toLocaleDateString()}. ${found.note}`));
}
