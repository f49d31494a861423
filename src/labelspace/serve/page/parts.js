// Small tools of all views. Names and texts of data only ever become text nodes, never markup.
export const byId = (id) => document.getElementById(id);

/** An element with attributes, event handlers (on...) and children. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const idOf = (label) => label.id ?? label.name;
/** The levels of a name that is a path. */
export const levels = (name) => name.split(" > ");
export const leaf = (name) => levels(name).at(-1);
/** The paths of which no other one is a continuation. */
export const deepest = (names) => names.filter((name) => !names.some((other) => other.startsWith(`${name} > `)));
export const share = (score) => score.toFixed(score < 0.01 ? 3 : 2);
export const number = (value) => value.toLocaleString("en");
/** An error's text with a capital letter and a full stop. */
export const sentence = (text) => `${text[0]?.toUpperCase() ?? ""}${text.slice(1).replace(/\.$/, "")}.`;
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** Save text as a file of this name. */
export function save(name, text, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** One line of CSV. A cell that a spreadsheet would compute gets an apostrophe before it. */
export function csvLine(cells) {
  return cells.map((cell) => {
    const text = /^[=+\-@\t\r]/.test(String(cell)) && Number.isNaN(Number(cell)) ? `'${cell}` : String(cell);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(",");
}

/** Rows of a CSV text; quoted cells may hold separators, quotes and line breaks. */
export function readCsv(text, separator = ",") {
  const rows = [[]];
  let cell = "", quoted = false;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') { cell += letter; at += 1; }
      else quoted = false;
    } else if (letter === '"' && cell === "") quoted = true;
    else if (letter === separator) { rows.at(-1).push(cell); cell = ""; }
    else if (letter === "\n") { rows.at(-1).push(cell.replace(/\r$/, "")); cell = ""; rows.push([]); }
    else cell += letter;
  }
  rows.at(-1).push(cell);
  return rows.filter((row) => row.length > 1 || row[0] !== "");
}
