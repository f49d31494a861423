// The vocabulary: search, the taxonomy as a tree that opens level by level, and all that is known of a label.
import { byId, leaf, make, number, plural } from "./parts.js";
import { call, report } from "./server.js";

const WAIT_MS = 180, PER_LEVEL = 100;

export class LabelsView {
  /** `onMap` shows a label in the label space. */
  constructor(page, onMap) {
    Object.assign(this, { page, onMap });
    byId("find").addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(), WAIT_MS);
    });
  }

  async use(model) {
    byId("label").hidden = true;
    byId("tree").replaceChildren();
    this.find();
    if (!model.taxonomy) return;
    try {
      byId("tree").replaceChildren(make("h3", {}, "Taxonomy"), ...await this.level(null));
    } catch (error) {
      report(error);
    }
  }

  path(rest, values = {}) {
    const query = new URLSearchParams({ ...values, ...(this.page.language && { language: this.page.language }) });
    return `/v1/models/${encodeURIComponent(this.page.model.name)}/${rest}?${query}`;
  }

  async find() {
    const query = byId("find").value.trim(), asked = this.asked = {};
    try {
      const { labels } = await call(this.path("labels", { query, k: query ? 30 : 12, similar: 0 }));
      if (asked !== this.asked) return;
      byId("find-status").textContent = query ? `${plural(labels.length, "label")} found.`
        : `${plural(this.page.model.labels, "label")}; the most frequent ones:`;
      byId("hits").replaceChildren(...labels.map((label) => this.item(label)));
    } catch (error) {
      byId("find-status").textContent = error.message;
    }
  }

  item(label) {
    const name = label.path.length > 1 ? label.path.map(leaf).join(" › ") : label.name;
    const shown = label.matched && label.matched !== label.name ? `${name} (${label.matched})` : name;
    return make("li", {}, make("button", { type: "button", onclick: () => this.describe(label.id) },
      make("span", {}, shown), make("span", {}, label.count === null ? "" : number(label.count))));
  }

  /** The nodes below one, as elements; more are fetched when they are wanted. */
  async level(parent, offset = 0) {
    const { total, nodes } = await call(this.path("tree", { ...(parent !== null && { parent }), offset, k: PER_LEVEL }));
    const made = nodes.map((node) => this.node(node)), shown = offset + nodes.length;
    if (shown < total && nodes.length) {
      const more = make("button", { type: "button", onclick: async () => more.replaceWith(...await this.level(parent, shown)) },
        `${number(total - shown)} more`);
      made.push(more);
    }
    return made;
  }

  node(node) {
    const text = node.count ? `${leaf(node.name)} (${number(node.count)})` : leaf(node.name);
    if (!node.children) return make("button", { type: "button", class: "leaf", onclick: () => this.describe(node.id) }, text);
    const name = node.is_label ? make("button", { type: "button", class: "open", onclick: (event) => {
      event.preventDefault();
      this.describe(node.id);
    } }, text) : text;
    const made = make("details", { ontoggle: async () => {
      if (!made.open || made.dataset.filled) return;
      made.dataset.filled = "yes";
      made.append(...await this.level(node.id));
    } }, make("summary", {}, name));
    return made;
  }

  /** Show all that is known of a label. */
  async describe(id) {
    const box = byId("label");
    try {
      const label = await call(this.path(`labels/${encodeURIComponent(id)}`, { similar: 10 }));
      const facts = [
        ["Id", label.id !== label.name && label.id], ["Notation", label.notation], ["URI", label.uri],
        ["Path", label.path.length > 1 && label.path.map(leaf).join(" › ")], ["Also called", label.alternative.join(", ")],
        ["Training examples", label.count === null ? null : number(label.count)], ["Description", label.description],
      ].filter(([, value]) => value);
      box.replaceChildren(make("h3", {}, label.name),
        make("table", {}, make("tbody", {}, ...facts.map(([name, value]) =>
          make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))))),
        this.page.model.map ? make("p", {}, make("button", { type: "button", onclick: () => this.onMap(label.id) }, "Show in the label space")) : null,
        label.similar.length ? make("h4", {}, "Similar labels") : null,
        label.similar.length ? make("ul", { class: "labels" }, ...label.similar.map(([name, cosine]) => make("li", {},
          make("button", { type: "button", onclick: () => this.describe(name) }, make("span", {}, name), make("span", {}, cosine.toFixed(2)))))) : null);
      box.hidden = false;
      box.scrollIntoView({ block: "nearest" });
    } catch (error) {
      report(error);
    }
  }
}
