// A label tree as nested <details>, each filled when it is first opened.
"use strict";

const SHOWN_CHILDREN = 200;

class Outline {
  constructor(data) {
    this.data = data;
    this.drawn = new Map(); // node -> its element
    // Nodes are numbered level by level, so that a node's children are a range.
    this.first = new Int32Array(data.parent.length + 1).fill(data.parent.length);
    for (let node = data.parent.length - 1; node > 0; node--) this.first[data.parent[node]] = node;
    for (let node = data.parent.length - 1; node >= 0; node--) {
      this.first[node] = Math.min(this.first[node], this.first[node + 1]);
    }
  }

  isLeaf(node) { return this.first[node] === this.first[node + 1]; }

  /** The element of a node: a line for a leaf, else a branch that can be opened. */
  draw(node) {
    const leaf = this.isLeaf(node), line = document.createElement(leaf ? "div" : "summary");
    line.append(span(this.data.names[node]), span(this.numbers(node)));
    line.classList.toggle("label", this.data.is_label[node] === 1);
    if (leaf) line.tabIndex = -1;
    const made = leaf ? line : document.createElement("details");
    if (!leaf) {
      made.append(line);
      made.addEventListener("toggle", () => made.open && this.fill(made, node));
    }
    this.drawn.set(node, made);
    return made;
  }

  numbers(node) {
    const examples = this.data.counts[node], labels = this.data.labels[node];
    const parts = [];
    if (!this.isLeaf(node)) parts.push(`${labels.toLocaleString("en")} ${labels === 1 ? "label" : "labels"}`);
    if (this.data.is_label[node] && examples) parts.push(examples.toLocaleString("en"));
    return parts.join(" · ");
  }

  /** Draw children up to `until`, or so many; a button draws the rest. */
  fill(branch, node, until = 0) {
    const from = Math.max(this.first[node], branch.filled ?? 0), last = this.first[node + 1];
    if (from >= last || (branch.filled && !until)) return;
    const stop = Math.min(last, Math.max(until + 1, from + SHOWN_CHILDREN));
    branch.querySelector(":scope > button")?.remove();
    for (let child = from; child < stop; child++) branch.append(this.draw(child));
    branch.filled = stop;
    if (stop === last) return;
    const more = document.createElement("button");
    more.type = "button";
    more.textContent = `${(last - stop).toLocaleString("en")} more`;
    more.addEventListener("click", () => this.fill(branch, node, stop));
    branch.append(more);
  }

  /** Open the way down to a node and go there. */
  reveal(node) {
    const path = [];
    for (let above = node; above >= 0; above = this.data.parent[above]) path.unshift(above);
    for (let step = 1; step < path.length; step++) {
      const branch = this.drawn.get(path[step - 1]);
      if (!this.drawn.has(path[step])) this.fill(branch, path[step - 1], path[step]);
      branch.open = true;
    }
    const found = this.drawn.get(node), line = found.querySelector(":scope > summary") ?? found;
    document.querySelector(".found")?.classList.remove("found");
    line.classList.add("found");
    line.focus({ preventScroll: true });
    line.scrollIntoView({ block: "center" });
  }
}

async function begin() {
  const data = await unpack(element("data").textContent), outline = new Outline(data);
  const root = outline.draw(0);
  element("tree").append(root);
  root.open = true;
  const labels = Array.from(data.parent.keys()).filter((node) => data.is_label[node]);
  labels.sort((one, other) => data.counts[other] - data.counts[one]);
  const names = labels.map((node) => data.names[node]);
  listenToSearch(() => names, (place) => outline.reveal(labels[place]));
}

start(begin);
