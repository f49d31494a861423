// The first view: labels of a text as it is typed, why each was given, and which of them a person accepts.
import { byId, csvLine, deepest, idOf, leaf, levels, make, plural, save, sentence, share } from "./parts.js";
import { call, clearReport, report } from "./server.js";

const WAIT_MS = 180, MOST = 50, EXPLAINED = 8, EXAMPLES = 4, LEAST_WEIGHT = 0.05, COLLECTED = "labelspace-examples";

export class TagView {
  /** `page` knows the model and the language; `landed` is told the labels of the text. */
  constructor(page, landed) {
    Object.assign(this, { page, landed, found: [], other: [], open: null, features: [], judged: new Map() });
    this.text = byId("text");
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("scroll", () => { byId("marks").scrollTop = this.text.scrollTop; });
    byId("clear").addEventListener("click", () => {
      this.text.value = "";
      this.changed();
      this.text.focus();
    });
    for (const name of ["k", "threshold"]) byId(name).addEventListener("input", () => this.show());
    byId("auto").addEventListener("click", () => {
      byId("threshold").value = this.page.model.threshold;
      this.show();
    });
    byId("other").addEventListener("change", () => this.ask());
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", () => this.copy(button));
    }
    byId("keep").addEventListener("click", () => this.keep());
    byId("export").addEventListener("click", () => {
      save("examples.jsonl", this.collected().map((each) => `${JSON.stringify(each)}\n`).join(""), "application/jsonl");
    });
    byId("forget").addEventListener("click", () => this.collect([]));
    byId("learn").addEventListener("click", () => this.learn());
    this.listenToDrops();
    document.addEventListener("server-back", () => this.ask());
    this.showCollected();
  }

  /** The model changed. */
  use(model, models) {
    byId("auto").hidden = model.threshold === null;
    byId("other").replaceChildren(new Option("no other model", ""), ...models.filter((each) => each.name !== model.name)
      .map((each) => new Option(each.name)));
    byId("compare-choice").hidden = models.length < 2;
    this.showCollected();
    this.ask();
  }

  changed() {
    this.judged.clear();
    [this.open, this.reasons] = [null, null];
    this.mark(this.features = []);
    const words = this.text.value.trim().split(/\s+/).filter(Boolean).length;
    byId("size").textContent = words ? plural(words, "word") : "";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), WAIT_MS);
  }

  /** Ask for labels; an answer to an older text is dropped. */
  async ask() {
    this.asked?.abort();
    const asked = this.asked = new AbortController(), text = this.text.value;
    if (!text.trim() || !this.page.model) {
      [this.found, this.other] = [[], []];
      this.show();
      return;
    }
    byId("status").textContent = this.found.length ? "" : "Tagging…";
    const other = byId("other").value;
    try {
      const [found, others] = await Promise.all([
        this.labelsOf(this.page.model.name, this.page.language, asked.signal),
        other ? this.labelsOf(other, null, asked.signal) : [],
      ]);
      if (asked.signal.aborted) return;
      [this.found, this.other] = [found, others];
      clearReport();
      this.show();
    } catch (error) {
      if (error.name === "AbortError") return;
      const stale = byId("found").childElementCount ? " The labels below are those of the last answer." : "";
      byId("status").textContent = `${sentence(error.message)}${stale}`;
      byId("status").classList.add("error");
    }
  }

  async labelsOf(name, language, signal) {
    const wanted = { text: this.text.value, k: MOST, paths: true, ...(language && { language }) };
    return (await call(`/v1/models/${encodeURIComponent(name)}/tag`, { body: wanted, signal })).results[0].labels;
  }

  /** The labels within the limits of the sliders. */
  within(labels) {
    const [k, least] = [Number(byId("k").value), Number(byId("threshold").value)];
    return labels.filter((label) => label.score >= least).slice(0, k);
  }

  show() {
    byId("status").classList.remove("error");
    byId("k-value").textContent = byId("k").value;
    byId("threshold-value").textContent = Number(byId("threshold").value).toFixed(2);
    const shown = this.within(this.found), empty = !this.text.value.trim();
    byId("found").replaceChildren(...shown.map((label) => this.line(label)));
    const other = byId("other").value;
    byId("compared").hidden = byId("own-title").hidden = !other;
    byId("own-title").textContent = this.page.model?.name ?? "";
    document.body.classList.toggle("comparing", Boolean(other));
    byId("other-title").textContent = other;
    const ours = new Set(shown.map(idOf));
    byId("other-found").replaceChildren(...this.within(this.other).map((label) => plainLine(label, ours.has(idOf(label)))));
    byId("tools").hidden = shown.length === 0;
    byId("clear").hidden = !this.text.value;
    if (empty) byId("status").textContent = "Labels will appear here.";
    else if (shown.length) byId("status").textContent = `${plural(shown.length, "label")} shown.`;
    else if (this.found.length) {
      byId("status").textContent = `No label has a score of ${byId("threshold-value").textContent}; the best one has ${share(this.found[0].score)}.`;
    } else byId("status").textContent = "No label was found.";
    // Only a label that is shown explains the words of the text.
    this.mark(shown.some((label) => idOf(label) === this.open) ? this.features : []);
    this.showJudged();
    this.landed(empty ? [] : shown);
  }

  /** A label that can be opened, accepted and rejected. */
  line(label) {
    const id = idOf(label), open = this.open === id, why = make("div", { class: "why", hidden: !open, id: `why-${id}` });
    const name = make("button", { type: "button", class: "name", "aria-expanded": String(open), title: "Why this label?",
      onclick: () => this.explain(label, name, why) }, ...described(label));
    name.style.setProperty("--share", `${Math.round(100 * label.score)}%`);
    const judgement = this.judged.get(id);
    const judge = (value, kind, sign, verb) => make("button", { type: "button", class: `judge ${kind}`,
      "aria-pressed": String(judgement === value), "aria-label": `${verb} ${label.name}`, title: verb,
      onclick: () => {
        this.judged.set(id, this.judged.get(id) === value ? undefined : value);
        // The buttons stay, so that the focus does.
        for (const [button, means] of [[yes, true], [no, false]]) button.setAttribute("aria-pressed", String(this.judged.get(id) === means));
        line.classList.toggle("rejected", this.judged.get(id) === false);
        this.showJudged();
      } }, sign);
    const yes = judge(true, "yes", "✓", "Accept"), no = judge(false, "no", "✗", "Reject");
    const line = make("li", { class: judgement === false ? "rejected" : "" },
      make("div", { class: "label" }, name, yes, no), why);
    if (open) why.replaceChildren(...(this.reasons ?? []));
    return line;
  }

  explain(label, button, why) {
    const id = idOf(label), opens = this.open !== id;
    [this.open, this.reasons] = [opens ? id : null, null];
    for (const each of document.querySelectorAll(".why")) each.hidden = true;
    for (const each of document.querySelectorAll("#found .name")) each.setAttribute("aria-expanded", "false");
    why.hidden = !opens;
    button.setAttribute("aria-expanded", String(opens));
    this.mark(this.features = []);
    if (opens) this.fill(label, why);
  }

  /** Fetch and show why a label was given: words, training examples, similar labels. */
  async fill(label, why) {
    const id = idOf(label);
    if (!this.page.model.explains) {
      why.replaceChildren(make("p", {}, `A model of the method ${this.page.model.method} does not explain its labels.`));
      return;
    }
    why.replaceChildren(make("p", { class: "quiet" }, "Computing…"));
    try {
      const wanted = { text: this.text.value, k: 1, only: [id], explain: true, explain_top: EXPLAINED,
        ...(this.page.language && { language: this.page.language }) };
      const answer = await call(`/v1/models/${encodeURIComponent(this.page.model.name)}/tag`, { body: wanted });
      if (this.open !== id) return;
      const found = answer.results[0].labels[0]?.explanation;
      if (found) found.features = telling(found.features);
      this.reasons = found ? reasons(found) : [make("p", {}, "There is nothing to explain.")];
      this.mark(this.features = found?.features ?? []);
    } catch (error) {
      this.reasons = [make("p", {}, error.message)];
    }
    // The list may have been drawn anew meanwhile.
    if (this.open === id) (byId(why.id) ?? why).replaceChildren(...this.reasons);
  }

  /** Highlight in the text the words that raise, and those that lower, the score of a label. */
  mark(features) {
    byId("marks").replaceChildren(...marked(this.text.value, features));
    byId("marks").scrollTop = this.text.scrollTop;
  }

  showJudged() {
    const accepted = [...this.judged.values()].filter((each) => each === true).length;
    byId("keep").hidden = accepted === 0;
    byId("keep").textContent = `Keep ${plural(accepted, "accepted label")} as an example`;
  }

  collected() {
    try {
      return JSON.parse(localStorage.getItem(COLLECTED)) ?? [];
    } catch {
      return []; // of another program, or not stored as a whole
    }
  }

  collect(examples) {
    localStorage.setItem(COLLECTED, JSON.stringify(examples));
    this.showCollected();
  }

  showCollected() {
    const examples = this.collected();
    byId("collected").hidden = examples.length === 0;
    byId("collected-count").textContent = `${plural(examples.length, "example")}, kept in this browser.`;
    byId("learn").hidden = !this.page.model?.learns;
  }

  keep() {
    const labels = [...this.judged].filter(([, value]) => value === true).map(([id]) => id);
    this.collect([...this.collected(), { text: this.text.value, labels }]);
    this.judged.clear();
    this.show();
    byId("status").textContent = "Kept as an example, below the text.";
  }

  async learn() {
    try {
      const name = encodeURIComponent(this.page.model.name);
      const { accepted } = await call(`/v1/models/${name}/learn`, { body: { examples: this.collected() } });
      this.collect([]);
      byId("status").textContent = `${plural(accepted, "example")} will be learned.`;
    } catch (error) {
      report(error);
    }
  }

  async copy(button) {
    const labels = this.within(this.found).filter((label) => this.judged.get(idOf(label)) !== false);
    const header = ["id", "name", "score", "notation", "uri"];
    const text = {
      names: () => labels.map((label) => label.name).join("\n"),
      json: () => JSON.stringify(labels.map(({ path, ...label }) => label), null, 2),
      csv: () => [header, ...labels.map((label) => header.map((key) => (key === "id" ? idOf(label) : label[key] ?? "")))]
        .map(csvLine).join("\n"),
    }[button.dataset.copy]();
    try {
      await navigator.clipboard.writeText(text);
      byId("status").textContent = `${plural(labels.length, "label")} copied.`;
    } catch {
      save(`labels.${{ names: "txt", json: "json", csv: "csv" }[button.dataset.copy]}`, text, "text/plain");
    }
  }

  listenToDrops() {
    const editor = this.text.parentElement;
    editor.addEventListener("dragover", (event) => {
      event.preventDefault();
      editor.classList.add("over");
    });
    editor.addEventListener("dragleave", () => editor.classList.remove("over"));
    editor.addEventListener("drop", async (event) => {
      editor.classList.remove("over");
      const [file] = event.dataTransfer.files;
      if (!file) return;
      event.preventDefault();
      this.text.value = await file.text();
      this.changed();
    });
  }
}

/** Name, score, path and notation of a label. */
function described(label, more = null) {
  // Without a taxonomy, a name may still be a path.
  const above = label.path?.length > 1 ? label.path.slice(0, -1).map(leaf) : levels(label.name).slice(0, -1);
  return [
    make("span", { class: "title" }, leaf(label.name), more),
    make("span", { class: "score" }, share(label.score)),
    above.length ? make("span", { class: "path" }, above.join(" › ")) : null,
    label.notation ? make("span", { class: "notation" }, label.notation) : null,
  ];
}

function plainLine(label, both) {
  const name = make("div", { class: "name" }, ...described(label, both ? null : make("small", {}, " only here")));
  name.style.setProperty("--share", `${Math.round(100 * label.score)}%`);
  return make("li", {}, make("div", { class: "label" }, name));
}

/** The features that weigh something beside the strongest one. */
function telling(features) {
  const most = Math.max(0, ...features.map(([, weight]) => Math.abs(weight)));
  return features.filter(([, weight]) => Math.abs(weight) >= LEAST_WEIGHT * most);
}

/** What an explanation holds, as elements. */
function reasons({ features, examples, labels }) {
  const parts = [];
  if (features.length) {
    parts.push(make("h4", {}, "Words"), make("ul", { class: "words" }, ...features.map(([word, weight]) =>
      make("li", { class: weight < 0 ? "lower" : "" }, `${word} ${weight > 0 ? "+" : "−"}${Math.abs(weight).toFixed(2)}`))));
  }
  if (examples.length) {
    parts.push(make("h4", {}, "Nearest training examples"), make("ul", {}, ...examples.slice(0, EXAMPLES).map((each) =>
      make("li", {}, `${each.id ?? `row ${each.row}`} (${each.cosine.toFixed(2)}): ${deepest(each.labels).slice(0, 6).map(leaf).join(", ")}`))));
  }
  if (labels.length) {
    parts.push(make("h4", {}, "Similar labels"), make("ul", {}, ...labels.map(([name, cosine]) =>
      make("li", { title: name }, `${leaf(name)} (${cosine.toFixed(2)})`))));
  }
  return parts.length ? parts : [make("p", {}, "The model has no reasons to show for this label.")];
}

/** The text as nodes, with the words of the features in marks; the longest feature wins. */
export function marked(text, features) {
  const weights = new Map();
  for (const [name, weight] of features) {
    const clean = name.replace(/^[^:\s]+:\s/, "").toLowerCase();
    if (clean && !weights.has(clean)) weights.set(clean, weight);
  }
  if (!weights.size) return [text];
  const escaped = [...weights.keys()].sort((one, other) => other.length - one.length)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"));
  const nodes = [], pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${escaped.join("|")})`, "giu");
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const weight = weights.get(match[1].toLowerCase().replace(/\s+/g, " ")) ?? 0;
    nodes.push(text.slice(end, match.index), make("mark", { class: weight < 0 ? "lower" : "" }, match[0]));
    end = match.index + match[0].length;
  }
  return [...nodes, text.slice(end)];
}
