// A reliability diagram: the mean score of predicted labels against the share of them that is right.
import { make, number } from "./parts.js";

const SVG = "http://www.w3.org/2000/svg";
const SIZE = 200, LEFT = 52, BELOW = 40, ROUND = 18; // of the square, and around it
const MARKS = [0, 0.25, 0.5, 0.75, 1];
const percent = (part) => `${(100 * part).toFixed(0)} %`;

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The diagram of the bins with its caption; the numbers follow as a table. */
export function reliability(bins, caption) {
  const x = (score) => SIZE * Math.min(1, score), y = (right) => SIZE * (1 - Math.min(1, right));
  const most = Math.max(...bins.map((bin) => bin.pairs));
  const inWords = bins.map((bin) => `of ${number(bin.pairs)} labels with a mean score of ${percent(bin.score)}, ${percent(bin.true)} are right`);
  const image = drawn("svg", {
    viewBox: `${-LEFT} ${-ROUND / 2} ${SIZE + LEFT + ROUND} ${SIZE + BELOW + ROUND / 2}`, role: "img", class: "reliability",
    "aria-label": `${caption}: ${inWords.join("; ")}.`,
  });
  for (const mark of MARKS) {
    image.append(
      drawn("path", { class: "grid", d: `M0 ${y(mark)}H${SIZE}M${x(mark)} 0V${SIZE}` }),
      drawn("text", { x: -6, y: y(mark) + 4, "text-anchor": "end" }, percent(mark)),
      drawn("text", { x: x(mark), y: SIZE + 15, "text-anchor": "middle" }, percent(mark)));
  }
  image.append(
    drawn("path", { class: "ideal", d: `M0 ${SIZE}L${SIZE} 0` }),
    drawn("path", { class: "line", d: `M${bins.map((bin) => `${x(bin.score)} ${y(bin.true)}`).join("L")}` }),
    // The area of a point is the number of labels.
    ...bins.map((bin, at) => drawn("circle", { cx: x(bin.score), cy: y(bin.true), r: 2 + 5 * Math.sqrt(bin.pairs / most) },
      drawn("title", {}, inWords[at]))),
    drawn("text", { x: SIZE / 2, y: SIZE + 32, "text-anchor": "middle" }, "mean score"),
    drawn("text", { x: -SIZE / 2, y: -42, "text-anchor": "middle", transform: "rotate(-90)" }, "share that is right"));
  const cells = (bin) => [percent(bin.score), percent(bin.true), number(bin.pairs)];
  return make("figure", {},
    make("figcaption", {}, caption), image,
    make("details", {}, make("summary", {}, "As a table"), make("table", {},
      make("thead", {}, make("tr", {}, ...["mean score", "right", "labels"].map((name) => make("th", { scope: "col", class: "number" }, name)))),
      make("tbody", {}, ...bins.map((bin) => make("tr", {}, ...cells(bin).map((cell) => make("td", { class: "number" }, cell))))))));
}
