// Draws the map on a canvas: lines of the tree, points, names. Labels are sorted, frequent first.
"use strict";

const SHADES = 24;
const MOST_NAMES = 120, MOST_TRIED = 4000, MOST_EDGES = 4000, LONGEST_NAME = 42;
const AREA_PER_NAME = 4000; // square pixels
const TINY = 1.6, SQUARE = 0.78; // pixels of a dot's radius; half the side of the square that looks as large
const SMALL_DISK = 240; // pixels of the radius, as on a phone
const BELOW = " > "; // between the levels of a path
const RARE_TO_FREQUENT = ["#b4c8d4", "#5e9fbb", "#2f6f9f", "#2b3f7e", "#241a4d"];

class Painter {
  constructor(canvas, data, settings) {
    Object.assign(this, { canvas, data, settings });
    this.context = canvas.getContext("2d");
    this.seen = new Float64Array(data.points.length);
    this.widths = new Map();
    this.mark = null;
    this.show = { names: true, edges: true, frequency: false };
    this.hasChildren = new Uint8Array(data.parent.length);
    for (const above of data.parent) if (above >= 0) this.hasChildren[above] = 1;
    this.titles = new Map(settings.heads.map((head, group) => [head, settings.titles[group]]));
    this.dress();
  }

  /** Take the colours of the page, which may be light or dark. */
  dress() {
    const style = getComputedStyle(document.documentElement);
    const own = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = { ink: own("ink"), quiet: own("quiet"), rim: own("line"), paper: own("paper"), chosen: own("accent") };
    this.dark = own("scheme") === "dark";
    // On a dark page the same colours are lighter, so that names can be read.
    this.groups = this.settings.colours.map((hex) => (this.dark ? mixed(hex, "#ffffff", 0.45) : hex));
    const stops = this.dark ? RARE_TO_FREQUENT.map((hex) => mixed(hex, "#ffffff", 0.35)).reverse() : RARE_TO_FREQUENT;
    this.shades = shades(stops);
    this.sprites = { group: this.groups.map(dot), frequency: this.shades.map(dot) };
  }

  colourOf(label) {
    if (this.show.frequency) return this.shades[Math.round(this.data.levels[label] * (SHADES - 1))];
    return this.groups.at(this.data.group[label]);
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
    [this.origin] = look(camera.view, [0, 0], [0, 0]);
    const pen = this.context;
    pen.clearRect(0, 0, this.width, this.height);
    this.paintRim();
    if (this.show.edges) this.paintEdges(hasty ? MOST_EDGES / 4 : MOST_EDGES);
    this.findVisible();
    this.paintPoints();
    if (chosen >= 0) this.paintRays(chosen);
    if (this.mark) this.paintMark(camera);
    this.paintNames(chosen, hasty);
  }

  paintRim() {
    this.context.lineWidth = 1;
    this.context.strokeStyle = this.colours.rim;
    this.circle(this.width / 2, this.height / 2, this.scale);
  }

  circle(x, y, radius) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.stroke();
  }

  paintEdges(most) {
    const pen = this.context, { seen } = this, { parent } = this.data;
    pen.lineWidth = 0.8;
    pen.globalAlpha = Math.min(0.55, Math.max(0.25, 16 / Math.sqrt(parent.length)));
    let drawn = 0;
    for (let label = 0; label < parent.length && drawn < most; label++) {
      if (parent[label] < 0) continue;
      const a = 2 * label, b = 2 * parent[label];
      if (!this.onScreen(seen[a], seen[a + 1]) && !this.onScreen(seen[b], seen[b + 1])) continue;
      const pixels = this.scale * Math.hypot(seen[a] - seen[b], seen[a + 1] - seen[b + 1]);
      if (pixels < 3) continue;
      pen.strokeStyle = this.colourOf(label);
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
    this.inView = 0;
    // Written out, as it runs over all labels at every frame.
    for (let i = 0; i < seen.length; i += 2) {
      const x = seen[i] * scale, y = seen[i + 1] * scale;
      if (Math.abs(x) >= middleX || Math.abs(y) >= middleY) continue;
      this.inView += 1;
      const cell = ((middleY - y) >> 1) * columns + ((middleX + x) >> 1);
      if (covered[cell]) continue;
      covered[cell] = 1;
      this.visible.push(i / 2);
    }
  }

  /** Pixels of a label's dot: frequent ones are larger, those near the rim smaller. */
  dotRadius(label) {
    const x = this.seen[2 * label], y = this.seen[2 * label + 1];
    const few = Math.max(0.85, 1.8 - 0.12 * Math.log10(this.visible.length + 1) ** 1.5);
    return few * (1.5 + 3.5 * this.data.levels[label] ** 1.5) * (0.65 + 0.35 * (1 - x * x - y * y));
  }

  paintPoints() {
    const pen = this.context, { seen, visible, sprites } = this, { levels, group } = this.data;
    const kind = this.show.frequency ? sprites.frequency : sprites.group;
    const colours = this.show.frequency ? this.shades : this.groups;
    const colour = (label) => (this.show.frequency
      ? Math.round(levels[label] * (SHADES - 1)) : (group[label] + colours.length) % colours.length);
    // Tiny dots are squares, by colour: many times quicker, and nobody sees their corners.
    const tiny = colours.map(() => []), large = [];
    for (let place = visible.length - 1; place >= 0; place--) {
      const label = visible[place], r = this.dotRadius(label);
      const sx = this.width / 2 + seen[2 * label] * this.scale, sy = this.height / 2 - seen[2 * label + 1] * this.scale;
      if (r < TINY) tiny[colour(label)].push(sx - SQUARE * r, sy - SQUARE * r, 2 * SQUARE * r);
      else large.push([kind[colour(label)], sx - r, sy - r, 2 * r]);
    }
    tiny.forEach((dots, at) => {
      pen.fillStyle = colours[at];
      for (let i = 0; i < dots.length; i += 3) pen.fillRect(dots[i], dots[i + 1], dots[i + 2], dots[i + 2]);
    });
    for (const [sprite, x, y, size] of large) pen.drawImage(sprite, x, y, size, size);
  }

  /** The text as a star, with geodesics to its labels. */
  paintMark(camera) {
    const pen = this.context, { seen, colours } = this, [x, y] = look(camera.view, this.mark.point, [0, 0]);
    pen.strokeStyle = pen.fillStyle = colours.chosen;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (const label of this.mark.labels) this.geodesic(x, y, seen[2 * label], seen[2 * label + 1]);
    pen.stroke();
    const [sx, sy] = this.toScreen(x, y);
    pen.beginPath();
    for (let corner = 0; corner < 10; corner++) {
      const r = corner % 2 ? 4 : 10, angle = (Math.PI * corner) / 5 - Math.PI / 2;
      pen.lineTo(sx + r * Math.cos(angle), sy + r * Math.sin(angle));
    }
    pen.closePath();
    pen.fill();
    pen.strokeStyle = colours.paper;
    pen.stroke();
  }

  /** Geodesics from the chosen label to its nearest. */
  paintRays(chosen) {
    const pen = this.context, { seen } = this;
    const x = seen[2 * chosen], y = seen[2 * chosen + 1];
    pen.strokeStyle = this.colours.chosen;
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
    const near = chosen >= 0 ? [chosen, ...nearestOf(this.data, chosen)] : [];
    const first = [...new Set([...(this.mark?.labels ?? []), ...near])];
    const heads = this.settings.heads.filter((head) => this.onScreen(this.seen[2 * head], this.seen[2 * head + 1]));
    const rest = this.show.names ? [...heads, ...this.visible.filter((label) => !this.titles.has(label))] : [];
    const space = Math.min(this.width, this.height) ** 2 / AREA_PER_NAME; // a small disk has fewer names
    const most = Math.min(hasty ? MOST_NAMES / 2 : MOST_NAMES, space) + first.length;
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
  paintName(label, placed, special, chosen) {
    const pen = this.context, bold = chosen || this.titles.has(label), { ink, paper, chosen: accent } = this.colours;
    const [sx, sy] = this.toScreen(this.seen[2 * label], this.seen[2 * label + 1]);
    const size = this.titles.has(label) ? (this.unit < SMALL_DISK ? 12.5 : 15) : Math.round(2 * (10.5 + 2.5 * this.data.levels[label] ** 2)) / 2;
    const text = shortened(this.titles.get(label) ?? this.ownName(label));
    const width = (this.nameWidth(label, text) * (bold ? 1.1 : 1) * size) / 12;
    const place = placed.take(sx, sy, width, size * 1.2, this.dotRadius(label) + 3, this.isNameLeft(label));
    if (place === null) return 0;
    pen.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
    pen.strokeStyle = paper;
    pen.globalAlpha = 0.85;
    pen.lineWidth = 3;
    pen.strokeText(text, place[0], place[1]);
    pen.globalAlpha = 1;
    pen.fillStyle = special ? accent : this.titles.has(label) && !this.show.frequency ? this.colourOf(label) : ink;
    pen.fillText(text, place[0], place[1]);
    return 1;
  }

  /** Whether a name is best left of its point: where no lines lead from it to children. */
  isNameLeft(label) {
    const above = this.data.parent[label], from = above < 0 ? this.origin : this.seen[2 * above];
    return this.seen[2 * label] < from !== Boolean(this.hasChildren[label]);
  }

  /** The name; of a path, the levels that its parent and the label of its group's name do not have. */
  ownName(label) {
    const { names, parent, group } = this.data, levels = names[label].split(BELOW);
    const relatives = [parent[label], this.settings.heads[group[label]] ?? -1].filter((each) => each >= 0);
    const shared = relatives.map((each) => nShared(levels, names[each].split(BELOW)));
    return levels.slice(Math.min(levels.length - 1, Math.max(0, ...shared))).join(BELOW);
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

  /** The labels inside a polygon of places on the screen, frequent first. */
  labelsInside(polygon) {
    const found = [];
    for (let label = 0; label < this.seen.length / 2; label++) {
      const [x, y] = this.toScreen(this.seen[2 * label], this.seen[2 * label + 1]);
      if (isInside(x, y, polygon)) found.push(label);
    }
    return found;
  }

  paintPolygon(polygon) {
    const pen = this.context;
    pen.strokeStyle = this.colours.chosen;
    pen.fillStyle = this.colours.chosen;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const [x, y] of polygon) pen.lineTo(x, y);
    pen.closePath();
    pen.stroke();
    pen.globalAlpha = 0.08;
    pen.fill();
    pen.globalAlpha = 1;
  }
}

/** Whether a place is inside a polygon: a ray to the right crosses its sides an odd number of times. */
function isInside(x, y, polygon) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [ax, ay] = polygon[i], [bx, by] = polygon[j];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

/** Boxes that are taken, by the cells of 64 pixels that they touch. */
class PlacedBoxes {
  constructor(width, height) {
    Object.assign(this, { width, height, cells: new Map() });
  }

  /** Right of the point or left, above or below: where the text begins, or null if all are taken. */
  take(x, y, width, height, gap, isLeft = false) {
    const right = x + gap, left = x - gap - width;
    for (const [from, top] of [
      [isLeft ? left : right, y - height / 2],
      [isLeft ? right : left, y - height / 2],
      [x - width / 2, y - gap - height],
      [x - width / 2, y + gap],
    ]) {
      if (this.free(from - 3, top, from + width + 3, top + height)) return [from, top + height / 2];
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

/** The number of leading levels that two paths share. */
function nShared(levels, others) {
  const place = levels.findIndex((level, i) => level !== others[i]);
  return place < 0 ? levels.length : place;
}

/** A name that is not too long; a path loses its first levels, since the last distinguishes labels. */
function shortened(name) {
  const clean = name.replace(/[\p{C}\s]+/gu, " ").trim();
  const length = (text) => Array.from(text).length;
  if (length(clean) <= LONGEST_NAME) return clean;
  const levels = clean.split(BELOW);
  for (let first = 1; first < levels.length; first++) {
    const short = ["…", ...levels.slice(first)].join(BELOW);
    if (length(short) <= LONGEST_NAME) return short;
  }
  return Array.from(levels[levels.length - 1]).slice(0, LONGEST_NAME - 1).join("") + "…";
}

/** A colour between two. */
function mixed(one, other, share) {
  const [a, b] = [one, other].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return `#${a.map((part, i) => Math.round(part + share * (b[i] - part)).toString(16).padStart(2, "0")).join("")}`;
}

/** Colours from the first stop to the last. */
function shades(stops) {
  return Array.from({ length: SHADES }, (_, i) => {
    const place = (i / (SHADES - 1)) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
    return mixed(stops[low], stops[low + 1], place - low);
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
