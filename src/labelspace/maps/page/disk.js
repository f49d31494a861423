// The Poincare disk. A view is the isometry z -> (a z + b) / (conj(b) z + conj(a)) with
// |a|^2 - |b|^2 = 1, kept as [Re a, Im a, Re b, Im b].
"use strict";

const HOME = [1, 0, 0, 0];

/** The view that shows what f shows of what g shows. */
function compose(f, g) {
  const view = [
    f[0] * g[0] - f[1] * g[1] + f[2] * g[2] + f[3] * g[3],
    f[0] * g[1] + f[1] * g[0] + f[3] * g[2] - f[2] * g[3],
    f[0] * g[2] - f[1] * g[3] + f[2] * g[0] + f[3] * g[1],
    f[0] * g[3] + f[1] * g[2] + f[3] * g[0] - f[2] * g[1],
  ];
  // Rounding must not add up over thousands of moves.
  const size = Math.sqrt(view[0] ** 2 + view[1] ** 2 - view[2] ** 2 - view[3] ** 2);
  return view.map((part) => part / size);
}

/** Many points, x and y in turn, through a view. */
function look(view, points, seen) {
  const [ar, ai, br, bi] = view;
  for (let i = 0; i < points.length; i += 2) {
    const x = points[i], y = points[i + 1];
    const ur = ar * x - ai * y + br, ui = ar * y + ai * x + bi;
    const vr = br * x + bi * y + ar, vi = br * y - bi * x - ai;
    const size = vr * vr + vi * vi;
    seen[i] = (ur * vr + ui * vi) / size;
    seen[i + 1] = (ui * vr - ur * vi) / size;
  }
  return seen;
}

/** The translation z -> (z + c) / (1 + conj(c) z) that takes the point p to q. */
function translation(p, q) {
  const ar = q[0] - p[0], ai = q[1] - p[1];
  const br = p[0] * q[0] - p[1] * q[1], bi = p[0] * q[1] + p[1] * q[0];
  const below = 1 - br * br - bi * bi;
  const cr = (ar + br * ar + bi * ai) / below, ci = (ai + bi * ar - br * ai) / below;
  const scale = 1 / Math.sqrt(Math.max(1e-12, 1 - cr * cr - ci * ci));
  return [scale, 0, cr * scale, ci * scale];
}

/** The point that has gone the share t of the way from p to the centre. */
function towardsCentre(p, t) {
  const length = Math.hypot(p[0], p[1]);
  if (length === 0) return [0, 0];
  const left = Math.tanh((1 - t) * Math.atanh(Math.min(length, 1 - 1e-12))) / length;
  return [p[0] * left, p[1] * left];
}

/** Centre and radius of the circle that the geodesic through two points is part of; null: a line. */
function geodesicCircle(x1, y1, x2, y2) {
  const turn = 2 * (x1 * y2 - x2 * y1);
  if (Math.abs(turn) < 1e-9) return null;
  const s1 = 1 + x1 * x1 + y1 * y1, s2 = 1 + x2 * x2 + y2 * y2;
  const x = (s1 * y2 - s2 * y1) / turn, y = (s2 * x1 - s1 * x2) / turn;
  return [x, y, Math.sqrt(Math.max(0, x * x + y * y - 1))];
}

/** The circle of points at a hyperbolic distance from `centre`, as [x, y, radius]. */
function ring(centre, distance) {
  const t2 = Math.tanh(distance / 2) ** 2, c2 = centre[0] ** 2 + centre[1] ** 2;
  const below = 1 - c2 * t2;
  const shift = (1 - t2) / below;
  return [centre[0] * shift, centre[1] * shift, (Math.sqrt(t2) * (1 - c2)) / below];
}
