// Moves the map, searches it and describes the chosen label.
"use strict";

const MOST_ZOOM = 1e5, MOST_SHIFT = 1e4, MOVE_MS = 600, MOST_LISTED = 300, LEAST_IN_VIEW = 25;
const ROOM = 0.7; // share of half the screen within which the labels around a chosen one are seen
const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

class LabelMap {
  constructor(data) { this.use(data); }

  /** Show the labels of a model. */
  use(data) {
    this.stop();
    const { show } = this.painter ?? {};
    this.data = data;
    this.settings = JSON.parse(data.texts.settings);
    this.painter = new Painter(element("map"), data, this.settings);
    if (show) this.painter.show = show;
    this.painter.resize();
    this.polygon = [];
    this.mark = null;
    this.chosen = -1;
    this.goHome();
  }

  /** Show a text as a point among its labels, with their scores; null takes it away. */
  land(labels, scores) {
    this.mark = labels.length ? { labels, point: meanPoint(this.data.points, labels, scores) } : null;
    this.painter.mark = this.mark;
    if (this.mark) this.moveTo(this.mark.point, labels, () => this.mark !== null);
    else this.draw();
  }

  goHome() {
    this.camera = { view: HOME, zoom: 1 / this.settings.radius };
    this.draw();
  }

  /** Paint at the next frame; a second time in full once nothing moves. */
  draw(hasty = false) {
    this.hasty = hasty;
    clearTimeout(this.later);
    if (hasty) this.later = setTimeout(() => this.draw(), 160);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.painter.paint(this.camera, this.chosen, this.hasty);
      if (this.polygon?.length) this.painter.paintPolygon(this.polygon);
    });
  }

  /** Move so that what was seen at p, a point of the disk, is seen at q. */
  carry(p, q) {
    const moved = compose(translation(inside(p), inside(q)), this.camera.view);
    // Far beyond all labels no digits would be left to come back by.
    if (Math.hypot(moved[0], moved[1]) < MOST_SHIFT) this.camera.view = moved;
    this.draw(true);
  }

  /** Magnify; what is at the place (x, y) of the screen stays there. */
  zoom(factor, x, y) {
    const { camera, painter } = this, before = inside(painter.toDisk(x, y));
    // What follows would be nearly empty; a small map has few labels anyway.
    if (factor > 1 && painter.inView < Math.min(LEAST_IN_VIEW, this.data.counts.length / 4)) return;
    const zoom = Math.min(MOST_ZOOM, Math.max(1, camera.zoom * factor));
    const share = camera.zoom / zoom;
    camera.zoom = zoom;
    // At the least zoom there is nothing to shrink: the model's centre comes back instead.
    if (share === 1 && factor < 1) {
      const middle = look(camera.view, [0, 0], [0, 0]);
      this.carry(middle, towardsCentre(middle, 0.3));
    } else {
      this.carry(before, [before[0] * share, before[1] * share]);
    }
  }

  /** Choose a label, describe it and bring it to the centre. */
  choose(label) {
    this.chosen = label;
    this.describe();
    const point = Array.from(this.data.points.subarray(2 * label, 2 * label + 2));
    this.moveTo(point, nearestOf(this.data, label), () => this.chosen === label);
  }

  /** Bring a point of the map to the centre, and labels into view, as long as that is wanted. */
  moveTo(point, labels, wanted) {
    const start = this.camera.view, place = look(start, point, [0, 0]);
    const from = this.camera.zoom, to = this.fitted(point, labels);
    const begun = performance.now(), time = calm() ? 0 : MOVE_MS;
    const step = (now) => {
      const t = time ? Math.min(1, Math.max(0, (now - begun) / time)) : 1, eased = t * t * (3 - 2 * t);
      if (!wanted()) return;
      this.camera.view = compose(translation(place, towardsCentre(place, eased)), start);
      this.camera.zoom = from * (to / from) ** eased;
      this.draw(t < 1);
      if (t < 1) this.moving = requestAnimationFrame(step);
    };
    this.stop();
    this.moving = requestAnimationFrame(step);
  }

  /** The magnification at which half of these labels are seen around a point at the centre; no larger one. */
  fitted([x, y], labels) {
    const { camera, data: { points } } = this, home = 1 / this.settings.radius;
    const reach = labels.map((label) => {
      const a = points[2 * label], b = points[2 * label + 1];
      return Math.hypot(a - x, b - y) / Math.hypot(1 - a * x - b * y, a * y - b * x);
    }).sort((one, other) => one - other);
    const half = reach[reach.length >> 1] ?? 1;
    return Math.min(camera.zoom, Math.max(home, ROOM / Math.max(half, 1e-6)));
  }

  stop() { cancelAnimationFrame(this.moving); }

  /** List the labels inside a polygon that was drawn on the screen. */
  listInside(polygon) {
    this.polygon = polygon;
    const found = polygon.length > 2 ? this.painter.labelsInside(polygon) : [];
    element("selected").hidden = polygon.length === 0;
    element("selected-count").textContent = `${found.length.toLocaleString("en")} labels in the area`;
    element("selected-labels").replaceChildren(...found.slice(0, MOST_LISTED).map((label) => this.item(label)));
    this.draw();
  }

  /** A list item that chooses a label. */
  item(label, text = "") {
    const button = document.createElement("button"), item = document.createElement("li");
    button.type = "button";
    button.title = this.data.names[label];
    button.append(span(shortened(this.data.names[label])), span(text));
    button.addEventListener("click", () => this.choose(label));
    item.append(button);
    return item;
  }

  letGo() {
    if (this.polygon?.length) this.listInside([]);
    this.chosen = -1;
    this.describe();
    this.draw();
  }

  /** The chosen label's details beside the map. Names only ever become text, never markup. */
  describe() {
    const { chosen, data, settings } = this;
    element("chosen").hidden = chosen < 0;
    if (chosen < 0) return;
    element("name").textContent = data.names[chosen];
    const count = data.counts[chosen];
    element("facts").textContent = settings.counted
      ? `${count.toLocaleString("en")} training ${count === 1 ? "example" : "examples"}` : "";
    const path = [];
    for (let above = data.parent[chosen]; above >= 0; above = data.parent[above]) path.unshift(above);
    element("path").textContent = path.map((label) => this.painter.ownName(label)).join(" › ");
    const k = data.near.length / data.counts.length;
    element("near").hidden = nearestOf(data, chosen).length === 0; // of labels without a vector
    element("nearest").replaceChildren(...nearestOf(data, chosen).map((label, place) => {
      const distance = (data.distances[chosen * k + place] / 65535) * settings.farthest;
      return this.item(label, distance.toPrecision(3));
    }));
  }
}

/** The weighted mean of labels' points: the midpoint in the hyperboloid model, brought back to the disk. */
function meanPoint(points, labels, weights) {
  let t = 0, x = 0, y = 0;
  labels.forEach((label, place) => {
    const [a, b] = [points[2 * label], points[2 * label + 1]], below = 1 - a * a - b * b;
    t += (weights[place] * (1 + a * a + b * b)) / below;
    x += (weights[place] * 2 * a) / below;
    y += (weights[place] * 2 * b) / below;
  });
  const size = Math.sqrt(Math.max(1e-12, t * t - x * x - y * y));
  return [x / (t + size), y / (t + size)];
}

/** The point, or the nearest one inside the disk that can be moved. */
function inside(p) {
  const length = Math.hypot(p[0], p[1]);
  return length < 0.999 ? p : [(p[0] * 0.999) / length, (p[1] * 0.999) / length];
}

function listenToPointer(map) {
  const canvas = element("map"), hint = element("hint"), held = new Map();
  let travelled = 0, drawing = null; // the area that is being drawn
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drawing = event.shiftKey || element("lasso").checked ? [at(event)] : null;
    held.set(event.pointerId, at(event));
    if (held.size === 1) travelled = 0;
    map.stop();
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event), before = held.get(event.pointerId);
    if (before === undefined) {
      hover(map, canvas, hint, now);
      return;
    }
    hint.style.visibility = "hidden";
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    const others = [...held].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0];
      const spread = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
      map.zoom(spread(now) / Math.max(1, spread(before)), other[0], other[1]);
    } else if (drawing) {
      drawing.push(now);
      map.polygon = drawing;
      map.draw(true);
    } else if (travelled > 4) {
      canvas.classList.add("moving");
      map.carry(map.painter.toDisk(...before), map.painter.toDisk(...now));
    }
    held.set(event.pointerId, now);
  });
  const release = (event) => {
    const clicked = held.size === 1 && travelled <= 4 && event.type === "pointerup";
    held.delete(event.pointerId);
    canvas.classList.remove("moving");
    const drawn = drawing;
    drawing = null;
    if (drawn && !clicked) map.listInside(drawn);
    if (!clicked) return;
    const label = map.painter.labelAt(...at(event));
    if (label >= 0) map.choose(label);
    else map.letGo();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { hint.style.visibility = "hidden"; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    map.stop();
    const lines = event.deltaMode === 1 ? 30 : 1;
    map.zoom(Math.exp(-0.0016 * Math.max(-240, Math.min(240, event.deltaY * lines))), ...at(event));
  }, { passive: false });
}

/** The name of the label under the pointer. */
function hover(map, canvas, hint, [x, y]) {
  const label = map.painter.visible ? map.painter.labelAt(x, y) : -1;
  canvas.classList.toggle("over", label >= 0);
  hint.style.visibility = label >= 0 ? "visible" : "hidden";
  if (label < 0) return;
  hint.textContent = map.data.names[label];
  const left = Math.min(x + 14, map.painter.width - hint.offsetWidth - 4);
  hint.style.transform = `translate(${Math.max(0, left)}px, ${y > 40 ? y - 34 : y + 18}px)`;
}

function listenToKeys(map) {
  const moves = { ArrowLeft: [0.12, 0], ArrowRight: [-0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] };
  element("map").addEventListener("keydown", (event) => {
    const { painter, camera } = map, middle = [painter.width / 2, painter.height / 2];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) map.carry([0, 0], moves[event.key].map((step) => step / camera.zoom));
    else if (event.key === "+" || event.key === "=") map.zoom(1.25, ...middle);
    else if (event.key === "-") map.zoom(0.8, ...middle);
    else if (event.key === "Home") map.goHome();
    else if (event.key === "Escape") map.letGo();
    else if (event.key === "/") element("query").focus();
    else return;
    map.stop();
    event.preventDefault();
  });
}

function showScale(settings, painter) {
  element("scale").hidden = !painter.show.frequency;
  element("bar").style.background = `linear-gradient(to right, ${painter.shades.join(", ")})`;
  const most = Math.log(settings.ticks.at(-1)) || 1;
  element("ticks").replaceChildren(...settings.ticks.map((count) => {
    const tick = span(count.toLocaleString("en"));
    tick.style.left = `${(100 * Math.log(count)) / most}%`;
    return tick;
  }));
}

/** Connect a map with the buttons, boxes and search of its page. */
function connect(map) {
  new ResizeObserver(() => {
    map.painter.resize();
    map.draw();
  }).observe(element("map"));
  map.painter.resize();
  for (const part of ["names", "edges", "frequency"]) {
    element(part).addEventListener("change", (event) => {
      map.painter.show[part] = event.target.checked;
      showScale(map.settings, map.painter);
      map.draw();
    });
  }
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    map.painter.dress();
    map.draw();
  });
  element("home").addEventListener("click", () => {
    map.stop();
    map.goHome();
  });
  listenToPointer(map);
  listenToKeys(map);
}

/** Show what a map holds beside it. */
function present(map) {
  element("how").textContent = map.settings.notes[1];
  element("frequency-label").hidden = !map.settings.counted;
  showScale(map.settings, map.painter);
}
