// What both pages share: finding a label by name, and a word to the reader if anything fails.
"use strict";

const SHOWN_MATCHES = 12;
const element = (id) => document.getElementById(id);

function span(text) {
  const made = document.createElement("span");
  made.textContent = text;
  return made;
}

/** Labels whose name has the words; names that begin with them first, frequent ones first. */
function matches(names, lowered, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const begin = [], hold = [];
  for (let label = 0; label < names.length && begin.length < SHOWN_MATCHES; label++) {
    const place = lowered[label].indexOf(wanted);
    if (place === 0) begin.push(label);
    else if (place > 0 && hold.length < SHOWN_MATCHES) hold.push(label);
  }
  return begin.concat(hold).slice(0, SHOWN_MATCHES);
}

/** Call `choose` with the label that a person picks from those that match; `source` returns all names. */
function listenToSearch(source, choose) {
  const query = element("query"), list = element("matches");
  let names = [], lowered = [], found = [], active = -1;
  const show = () => {
    list.hidden = found.length === 0;
    query.setAttribute("aria-expanded", String(found.length > 0));
    if (active >= 0) query.setAttribute("aria-activedescendant", `match-${active}`);
    else query.removeAttribute("aria-activedescendant");
    list.replaceChildren(...found.map((label, place) => {
      const item = document.createElement("li");
      item.id = `match-${place}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(place === active));
      item.textContent = names[label];
      item.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(place);
      });
      return item;
    }));
  };
  const take = (place) => {
    const label = found[place];
    found = [];
    active = -1;
    show();
    query.value = names[label];
    choose(label);
  };
  query.addEventListener("input", () => {
    if (source() !== names) {
      names = source();
      lowered = names.map((name) => name.toLowerCase());
    }
    found = matches(names, lowered, query.value);
    active = found.length ? 0 : -1;
    show();
  });
  query.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      found = [];
      show();
    } else if (found.length && event.key === "Enter") {
      take(Math.max(0, active));
    } else if (found.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      active = (active + (event.key === "ArrowDown" ? 1 : -1) + found.length) % found.length;
      show();
      event.preventDefault();
    }
  });
  query.addEventListener("blur", () => {
    found = [];
    active = -1;
    show();
  });
}

/** Run the page; the scripts are tested outside a browser too, where there is none. */
function start(begin) {
  if (typeof document === "undefined") return;
  begin().catch((error) => {
    element("trouble").textContent = `The page could not be shown: ${error.message}`;
    element("trouble").hidden = false;
  });
}
