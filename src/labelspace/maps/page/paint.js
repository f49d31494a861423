// Draws the map on a canvas: rings, taxonomy, points, names. Labels are sorted, frequent first.
"use strict";

const SHADES = 24;
const MOST_NAMES = 120, MOST_TRIED = 4000, MOST_EDGES = 1800, LONGEST_NAME = 42;

class Painter {
  constructor(canvas, data, settings) {
    Object.assign(this, { canvas, data, settings });
    this.context = canvas.getContext("2d");
    this.seen = new Float64Array(data.points.length);
    this.widths = new Map();
    this.show = { names: true, edges: true };
    this.sprites = shades(settings).map(dot);
  }

  /** Fit the canvas to its box on the page. */
  resize() {
    const box = this.canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * sharp);
    this.canvas.height = Math.round(box.height * sharp);
    this.context.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.covered = new Uint8Array(Math.ceil(this.width / 2 + 1) * Math.ceil(this.height / 2 + 1));
  }

  /** Pixels from the middle to the rim of the disk at magnification 1. */
  get unit() { return Math.max(40, Math.min(this.width, this.height) / 2 - 12); }

  toScreen(x, y) {
    return [this.width / 2 + x * this.scale, this.height / 2 - y * this.scale];
  }

  toDisk(x, y) {
    return [(x - this.width / 2) / this.scale, (this.height / 2 - y) / this.scale];
  }

  /** camera: {view, zoom}; chosen: a label or -1; hasty: while things move, with less detail. */
  paint(camera, chosen, hasty) {
    this.scale = this.unit * camera.zoom;
    look(camera.view, this.data.points, this.seen);
    const pen = this.context;
    pen.clearRect(0, 0, this.width, this.height);
    this.paintRings(camera);
    if (this.show.edges) this.paintEdges(hasty ? MOST_EDGES / 4 : MOST_EDGES);
    this.findVisible();
    this.paintPoints();
    if (chosen >= 0) this.paintRays(chosen);
    this.paintNames(chosen, hasty);
  }

  paintRings(camera) {
    const pen = this.context, { ring: faint, quiet } = this.settings.colours;
    const middle = look(camera.view, [0, 0], [0, 0]);
    pen.lineWidth = 1;
    pen.strokeStyle = faint;
    pen.fillStyle = quiet;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const distance of this.settings.rings) {
      const [x, y, r] = ring(middle, distance), [sx, sy] = this.toScreen(x, y);
      this.circle(sx, sy, r * this.scale);
      if (r * this.scale > 60) pen.fillText(String(+distance.toPrecision(3)), sx, sy + r * this.scale);
    }
    pen.strokeStyle = quiet;
    this.circle(this.width / 2, this.height / 2, this.scale);
  }

  circle(x, y, radius) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.stroke();
  }

  paintEdges(most) {
    const pen = this.context, { seen } = this, { edges } = this.data;
    pen.strokeStyle = "#8b97a6";
    pen.lineWidth = 0.7;
    pen.globalAlpha = Math.min(0.5, Math.max(0.18, 8 / Math.sqrt(edges.length / 2)));
    let drawn = 0;
    for (let i = 0; i < edges.length && drawn < most; i += 2) {
      const a = 2 * edges[i], b = 2 * edges[i + 1];
      if (!this.onScreen(seen[a], seen[a + 1]) && !this.onScreen(seen[b], seen[b + 1])) continue;
      const pixels = this.scale * Math.hypot(seen[a] - seen[b], seen[a + 1] - seen[b + 1]);
      if (pixels < 4) continue;
      pen.beginPath();
      this.geodesic(seen[a], seen[a + 1], seen[b], seen[b + 1]);
      pen.stroke();
      drawn += 1;
    }
    pen.globalAlpha = 1;
  }

  onScreen(x, y) {
    return Math.abs(x) * this.scale < this.width / 2 && Math.abs(y) * this.scale < this.height / 2;
  }

  /** Add the geodesic between two points of the disk to the path. */
  geodesic(x1, y1, x2, y2) {
    const pen = this.context, circle = geodesicCircle(x1, y1, x2, y2);
    const [sx, sy] = this.toScreen(x1, y1), [ex, ey] = this.toScreen(x2, y2);
    pen.moveTo(sx, sy);
    const reach = circle === null ? Infinity : circle[2] * this.scale;
    // A bend of less than half a pixel is a line.
    if (reach === Infinity || ((ex - sx) ** 2 + (ey - sy) ** 2) / (8 * reach) < 0.5) {
      pen.lineTo(ex, ey);
      return;
    }
    const [cx, cy] = this.toScreen(circle[0], circle[1]);
    const from = Math.atan2(sy - cy, sx - cx), to = Math.atan2(ey - cy, ex - cx);
    const turn = ((to - from) % (2 * Math.PI) + 3 * Math.PI) % (2 * Math.PI) - Math.PI;
    pen.arc(cx, cy, reach, from, to, turn < 0);
  }

  /** Labels on the screen that no more frequent one hides, frequent first. */
  findVisible() {
    const { seen, covered, scale } = this, columns = Math.ceil(this.width / 2 + 1);
    const middleX = this.width / 2, middleY = this.height / 2;
    covered.fill(0);
    this.visible = [];
    // Written out, as it runs over all labels at every frame.
    for (let i = 0; i < seen.length; i += 2) {
      const x = seen[i] * scale, y = seen[i + 1] * scale;
      if (Math.abs(x) >= middleX || Math.abs(y) >= middleY) continue;
      const cell = ((middleY - y) >> 1) * columns + ((middleX + x) >> 1);
      if (covered[cell]) continue;
      covered[cell] = 1;
      this.visible.push(i / 2);
    }
  }

  /** Pixels of a label's dot: frequent ones are larger, those near the rim smaller. */
  dotRadius(label) {
    const x = this.seen[2 * label], y = this.seen[2 * label + 1];
    const few = Math.max(0.75, 1.5 - 0.12 * Math.log10(this.visible.length + 1) ** 1.5);
    return few * (1.5 + 3.5 * this.data.levels[label] ** 1.5) * (0.65 + 0.35 * (1 - x * x - y * y));
  }

  paintPoints() {
    const pen = this.context, { seen, visible } = this, { levels } = this.data;
    for (let place = visible.length - 1; place >= 0; place--) {
      const label = visible[place], r = this.dotRadius(label);
      const [sx, sy] = this.toScreen(seen[2 * label], seen[2 * label + 1]);
      const sprite = this.sprites[this.settings.counted ? Math.round(levels[label] * (SHADES - 1)) : 0];
      pen.drawImage(sprite, sx - r, sy - r, 2 * r, 2 * r);
    }
  }

  /** Geodesics from the chosen label to its nearest. */
  paintRays(chosen) {
    const pen = this.context, { seen } = this, { selected } = this.settings.colours;
    const x = seen[2 * chosen], y = seen[2 * chosen + 1];
    pen.strokeStyle = selected;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const label of nearestOf(this.data, chosen)) {
      this.geodesic(x, y, seen[2 * label], seen[2 * label + 1]);
    }
    pen.stroke();
    pen.lineWidth = 2;
    const [sx, sy] = this.toScreen(x, y);
    this.circle(sx, sy, this.dotRadius(chosen) + 3);
  }

  /** Chosen label and its nearest first, then by frequency, as long as there is space. */
  paintNames(chosen, hasty) {
    const pen = this.context, placed = new PlacedBoxes(this.width, this.height);
    const first = chosen >= 0 ? [chosen, ...nearestOf(this.data, chosen)] : [];
    const rest = this.show.names ? this.visible : [];
    const most = (hasty ? MOST_NAMES / 2 : MOST_NAMES) + first.length;
    let tried = 0, written = 0;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    for (const label of first.concat(rest)) {
      if (written >= most || ++tried > MOST_TRIED) break;
      if (tried > first.length && first.includes(label)) continue;
      written += this.paintName(label, placed, tried <= first.length, label === chosen);
    }
  }

  /** Returns 1 if there was space for the name. */
  paintName(label, placed, special, bold) {
    const pen = this.context, { ink, selected } = this.settings.colours;
    const [sx, sy] = this.toScreen(this.seen[2 * label], this.seen[2 * label + 1]);
    const size = Math.round(2 * (10.5 + 3 * this.data.levels[label] ** 2)) / 2;
    const text = shortened(this.data.names[label]);
    const width = this.nameWidth(label, text) * (bold ? 1.08 : 1) * size / 12;
    const place = placed.take(sx, sy, width, size * 1.2, this.dotRadius(label) + 3);
    if (place === null) return 0;
    pen.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
    pen.strokeStyle = "rgba(255, 255, 255, 0.88)";
    pen.lineWidth = 3;
    pen.strokeText(text, place[0], place[1]);
    pen.fillStyle = special ? selected : ink;
    pen.fillText(text, place[0], place[1]);
    return 1;
  }

  /** At 12 pixels. */
  nameWidth(label, text) {
    if (!this.widths.has(label)) {
      this.context.font = "12px system-ui, sans-serif";
      this.widths.set(label, this.context.measureText(text).width);
    }
    return this.widths.get(label);
  }

  /** The visible label at a place of the screen, -1 if there is none. */
  labelAt(x, y) {
    let best = -1, least = Infinity;
    for (const label of this.visible) {
      const [sx, sy] = this.toScreen(this.seen[2 * label], this.seen[2 * label + 1]);
      const gap = Math.hypot(sx - x, sy - y) - this.dotRadius(label);
      if (gap < least) [best, least] = [label, gap];
    }
    return least <= 6 ? best : -1;
  }
}

/** Boxes that are taken, by the cells of 64 pixels that they touch. */
class PlacedBoxes {
  constructor(width, height) {
    Object.assign(this, { width, height, cells: new Map() });
  }

  /** Right of the point, left, above or below: where the text begins, or null if all are taken. */
  take(x, y, width, height, gap) {
    for (const [left, top] of [
      [x + gap, y - height / 2],
      [x - gap - width, y - height / 2],
      [x - width / 2, y - gap - height],
      [x - width / 2, y + gap],
    ]) {
      if (this.free(left - 3, top, left + width + 3, top + height)) return [left, top + height / 2];
    }
    return null;
  }

  free(left, top, right, bottom) {
    if (left < 0 || top < 0 || right > this.width || bottom > this.height) return false;
    const touched = [];
    for (let column = left >> 6; column <= right >> 6; column++) {
      for (let row = top >> 6; row <= bottom >> 6; row++) touched.push(column * 4096 + row);
    }
    for (const cell of touched) {
      for (const [l, t, r, b] of this.cells.get(cell) ?? []) {
        if (left < r && l < right && top < b && t < bottom) return false;
      }
    }
    for (const cell of touched) {
      if (!this.cells.has(cell)) this.cells.set(cell, []);
      this.cells.get(cell).push([left, top, right, bottom]);
    }
    return true;
  }
}

/** The labels nearest to one, nearest first. */
function nearestOf(data, label) {
  const k = data.near.length / data.counts.length;
  return Array.from(data.near.subarray(label * k, label * k + k)).filter((near) => near >= 0);
}

/** A name that is not too long; a path loses its first levels, since the last distinguishes labels. */
function shortened(name) {
  const clean = name.replace(/[\p{C}\s]+/gu, " ").trim();
  const length = (text) => Array.from(text).length;
  if (length(clean) <= LONGEST_NAME) return clean;
  const levels = clean.split(" > ");
  for (let first = 1; first < levels.length; first++) {
    const short = ["…", ...levels.slice(first)].join(" > ");
    if (length(short) <= LONGEST_NAME) return short;
  }
  return Array.from(levels[levels.length - 1]).slice(0, LONGEST_NAME - 1).join("") + "…";
}

/** Colours from rare to frequent. */
function shades({ colours, counted }) {
  if (!counted) return [colours.unknown];
  const stops = colours.stops.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Array.from({ length: SHADES }, (_, i) => {
    const place = (i / (SHADES - 1)) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
    const mixed = stops[low].map((part, j) => Math.round(part + (place - low) * (stops[low + 1][j] - part)));
    return `rgb(${mixed.join(",")})`;
  });
}

/** A round dot to be drawn many times at any size. */
function dot(colour) {
  const sprite = document.createElement("canvas");
  sprite.width = sprite.height = 16;
  const pen = sprite.getContext("2d");
  pen.fillStyle = colour;
  pen.arc(8, 8, 7.5, 0, 2 * Math.PI);
  pen.fill();
  return sprite;
}
