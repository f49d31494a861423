// The label space: the map of the model's labels, in which the text lands as a point.
/* global LabelMap, connect, listenToSearch, present, unpackBytes */
import { byId, idOf } from "./parts.js";
import { call } from "./server.js";

// Labels that the text is drawn with: so many, with at least this share of the best score.
const MOST_LANDED = 12, LEAST_SHARE = 0.15;

export class SpaceView {
  constructor() {
    this.places = new Map(); // of labels in the map, by their ids
    this.landed = [];
  }

  /** Load the map of a model. */
  async use(model) {
    const asked = this.asked = {};
    this.places.clear();
    document.body.classList.toggle("mapped", model.map);
    byId("map-status").textContent = model.map ? "Computing the map…" : `A model of the method ${model.method} has no label space.`;
    if (!model.map) return;
    try {
      const packed = await call(`/v1/models/${encodeURIComponent(model.name)}/map?format=packed`, { bytes: true });
      const data = await unpackBytes(packed);
      if (asked !== this.asked) return;
      if (this.map) this.map.use(data);
      else {
        this.map = new LabelMap(data);
        connect(this.map);
        listenToSearch(() => this.map.data.names, (label) => this.map.choose(label));
      }
      present(this.map);
      (data.ids ?? data.names).forEach((id, place) => this.places.set(id, place));
      byId("map-status").textContent = "";
      this.land(this.landed);
    } catch (error) {
      if (asked === this.asked) byId("map-status").textContent = error.message;
    }
  }

  /** Show the text as a point among its labels. */
  land(labels) {
    this.landed = labels;
    if (!this.map) return;
    const least = LEAST_SHARE * (labels[0]?.score ?? 0);
    const known = labels.filter((label) => label.score >= least && this.places.has(idOf(label))).slice(0, MOST_LANDED);
    this.map.land(known.map((label) => this.places.get(idOf(label))), known.map((label) => Math.max(label.score, 1e-3) ** 2));
  }

  choose(id) {
    if (this.map && this.places.has(id)) this.map.choose(this.places.get(id));
  }
}
