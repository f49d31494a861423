// The view that tags a whole file: read here, sent in parts, downloaded in the same format.
import { byId, csvLine, deepest, leaf, make, plural, readCsv, save } from "./parts.js";
import { call } from "./server.js";

const PER_CALL = 64, PREVIEWED = 20, LARGEST = 200_000_000, MOST_TRIES = 60;
const TYPES = { jsonl: "application/jsonl", csv: "text/csv", txt: "text/plain" };

export class FilesView {
  constructor(page) {
    this.page = page;
    byId("file").addEventListener("change", (event) => this.read(event.target.files[0]));
    const drop = byId("drop");
    drop.addEventListener("dragover", (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      this.read(event.dataTransfer.files[0]);
    });
    byId("column").addEventListener("change", () => this.preview());
    byId("job").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    byId("cancel").addEventListener("click", () => this.running?.abort());
    byId("download").addEventListener("click", () => this.download());
  }

  async read(file) {
    if (!file) return;
    this.running?.abort();
    this.results = [];
    byId("job").hidden = false;
    byId("job-name").textContent = file.name;
    byId("download").hidden = byId("progress").hidden = byId("preview-box").hidden = true;
    try {
      if (file.size > LARGEST) throw new Error("The file is larger than 200 MB: use labelspace predict on the command line.");
      this.table = parsed(file.name, await file.text());
    } catch (error) {
      this.table = null;
      byId("run").disabled = true;
      byId("job-status").textContent = error.message;
      return;
    }
    const { columns, rows } = this.table;
    byId("run").disabled = rows.length === 0;
    byId("column").replaceChildren(...columns.map((name) => new Option(name)));
    byId("column").value = columns.find((name) => /^(text|title|name|content|description)$/i.test(name)) ?? columns[0] ?? "";
    byId("column").parentElement.hidden = columns.length < 2;
    byId("job-status").textContent = plural(rows.length, "text");
    this.preview();
  }

  texts() {
    const column = byId("column").value;
    return this.table.rows.map((row) => String(row[column] ?? ""));
  }

  /** Tag all texts in parts, in order; what is done is kept when it is cancelled. */
  async run() {
    const texts = this.texts(), running = this.running = new AbortController();
    const k = Number(byId("job-k").value), threshold = Number(byId("job-threshold").value);
    const path = `/v1/models/${encodeURIComponent(this.page.model.name)}/tag`;
    this.results = [];
    byId("run").disabled = true;
    byId("cancel").hidden = byId("progress").hidden = false;
    byId("download").hidden = true;
    try {
      for (let start = 0; start < texts.length; start += PER_CALL) {
        const body = { texts: texts.slice(start, start + PER_CALL), k, threshold,
          ...(this.page.language && { language: this.page.language }) };
        const { results } = await this.patiently(path, { body, signal: running.signal });
        this.results.push(...results);
        byId("progress").value = this.results.length / texts.length;
        byId("job-status").textContent = `${this.results.length.toLocaleString("en")} of ${plural(texts.length, "text")} tagged.`;
        if (start === 0) this.preview();
      }
      byId("job-status").textContent = `All ${plural(texts.length, "text")} tagged.`;
    } catch (error) {
      byId("job-status").textContent = error.name === "AbortError"
        ? `Cancelled after ${plural(this.results.length, "text")}; these can be downloaded.` : error.message;
    }
    byId("run").disabled = false;
    byId("cancel").hidden = true;
    byId("download").hidden = this.results.length === 0;
    this.preview();
  }

  /** A call that is repeated while the server is busy, as many times as it may be. */
  async patiently(path, options) {
    for (let tries = 1; ; tries++) {
      try {
        return await call(path, options);
      } catch (error) {
        if (!error.retryAfter || tries >= MOST_TRIES) throw error;
        byId("job-status").textContent = "The server is busy; waiting…";
        await new Promise((resolve) => {
          setTimeout(resolve, 1000 * error.retryAfter);
          options.signal.addEventListener("abort", resolve, { once: true });
        });
      }
    }
  }

  preview() {
    const texts = this.texts().slice(0, PREVIEWED);
    const head = make("tr", {}, make("th", { scope: "col" }, "Text"), make("th", { scope: "col" }, "Labels"));
    byId("preview").replaceChildren(make("thead", {}, head), make("tbody", {}, ...texts.map((text, row) =>
      make("tr", {}, make("td", {}, text.length > 160 ? `${text.slice(0, 160)}…` : text),
        make("td", {}, ...this.results[row] ? deepest(this.results[row].labels.map((label) => label.name)).map((name) =>
          make("span", { class: "given", title: name }, leaf(name))) : "")))));
    byId("preview-box").hidden = texts.length === 0;
  }

  download() {
    const { name, kind } = this.table;
    save(name.replace(/(\.[^.]*)?$/, `.tagged.${kind === "jsonl" ? "jsonl" : kind}`), written(this.table, this.results), TYPES[kind]);
  }
}

/** A file as rows of named columns. */
export function parsed(name, text) {
  const content = text.replace(/^\uFEFF/, "");
  if (/\.(jsonl|ndjson|json)$/i.test(name)) {
    const rows = content.split("\n").map((line, at) => [line.trim(), at]).filter(([line]) => line).map(([line, at]) => {
      let row = null;
      try { row = JSON.parse(line); } catch { /* said below */ }
      if (row === null || typeof row !== "object" || Array.isArray(row)) {
        throw new Error(`${name}, line ${at + 1}: expected a JSON object, such as {"text": "..."}.`);
      }
      return row;
    });
    const columns = [...new Set(rows.slice(0, 100).flatMap((row) => Object.keys(row).filter((key) => typeof row[key] === "string")))];
    if (rows.length && !columns.length) throw new Error(`${name}: no field holds a text.`);
    return { name, kind: "jsonl", columns, rows };
  }
  if (/\.csv$/i.test(name)) {
    const first = content.slice(0, content.indexOf("\n") + 1 || undefined);
    const separator = [",", ";", "\t"].sort((one, other) => first.split(other).length - first.split(one).length)[0];
    const [columns = [], ...cells] = readCsv(content, separator);
    return { name, kind: "csv", columns, rows: cells.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? ""]))) };
  }
  const rows = content.split(/\r?\n/).filter((line) => line.trim()).map((line) => ({ text: line }));
  return { name, kind: "txt", columns: ["text"], rows };
}

/** The rows that are tagged, with their labels, in the format of the file. */
export function written({ kind, columns, rows }, results) {
  const tagged = rows.slice(0, results.length);
  if (kind === "jsonl") return tagged.map((row, at) => `${JSON.stringify({ ...row, labels: results[at].labels })}\n`).join("");
  const names = (at) => results[at].labels.map((label) => label.name).join("|");
  const scores = (at) => results[at].labels.map((label) => label.score).join("|");
  if (kind === "csv") {
    const added = columns.filter((column) => column !== "labels" && column !== "scores");
    return [[...added, "labels", "scores"], ...tagged.map((row, at) => [...added.map((column) => row[column]), names(at), scores(at)])]
      .map((cells) => `${csvLine(cells)}\n`).join("");
  }
  return tagged.map((row, at) => `${row.text}\t${names(at)}\n`).join("");
}
