// The page: one model at a time, and views that show what it does.
import { showCard } from "./card.js";
import { FilesView } from "./files.js";
import { LabelsView } from "./labels.js";
import { byId } from "./parts.js";
import { call, report } from "./server.js";
import { SpaceView } from "./space.js";
import { TagView } from "./tag.js";

const VIEWS = ["tag", "files", "map", "labels", "card"];
const page = { model: null, models: [], get language() { return byId("language").value || null; } };

const space = new SpaceView();
const tags = new TagView(page, (labels) => space.land(labels));
const labels = new LabelsView(page, (id) => {
  go("map");
  space.choose(id);
});
new FilesView(page);

/** Show a view; its name is in the address, so that it can be kept and gone back to. */
function go(view) {
  const chosen = VIEWS.includes(view) ? view : "tag";
  document.body.dataset.view = chosen;
  for (const name of VIEWS) if (name !== "map") byId(name).hidden = name !== chosen;
  for (const button of document.querySelectorAll("nav button")) {
    if (button.dataset.to === chosen) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  if (location.hash !== `#/${chosen}`) history.pushState(null, "", `#/${chosen}`);
}

async function useModel(name) {
  page.model = page.models.find((each) => each.name === name) ?? page.models[0];
  if (!page.model) return;
  byId("model").value = page.model.name;
  byId("language").replaceChildren(new Option("the model's language", ""), ...page.model.languages.map((each) => new Option(each)));
  byId("language-choice").hidden = page.model.languages.length < 2;
  tags.use(page.model, page.models);
  space.use(page.model);
  labels.use(page.model);
  showCard(page.model);
}

async function start() {
  page.models = (await call("/v1/models")).models;
  byId("model").replaceChildren(...page.models.map((each) => new Option(each.name)));
  await useModel(page.models[0]?.name);
}

byId("model").addEventListener("change", (event) => useModel(event.target.value));
byId("language").addEventListener("change", () => {
  tags.ask();
  labels.use(page.model);
});
document.querySelector("nav").addEventListener("click", (event) => {
  if (event.target.dataset.to) go(event.target.dataset.to);
});
// A file that is dropped beside its place must not take the page away.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
window.addEventListener("popstate", () => go(location.hash.slice(2)));
document.addEventListener("server-back", () => { if (!page.model) start().catch(report); });
go(location.hash.slice(2));
start().catch(report);
