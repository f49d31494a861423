// Labels of a text as it is typed; answers to an older text are dropped.
const model = document.getElementById("model");
const text = document.getElementById("text");
const labels = document.getElementById("labels");
const message = document.getElementById("message");
let timer = 0;
let asked = 0;

async function call(path, body) {
  const answer = await fetch(path, body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.detail);
  return value;
}

function item(label) {
  const line = document.createElement("li");
  const score = document.createElement("span");
  score.className = "score";
  score.textContent = ` ${label.score.toFixed(3)}`;
  line.append(label.name, score);
  return line;
}

async function tag() {
  const turn = ++asked;
  try {
    const found = text.value.trim()
      ? (await call(`/v1/models/${model.value}/tag`, { text: text.value, k: 10 })).results[0].labels
      : [];
    if (turn !== asked) return;
    labels.replaceChildren(...found.map(item));
    message.textContent = "";
  } catch (error) {
    if (turn === asked) message.textContent = error.message;
  }
}

text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(tag, 200); });
model.addEventListener("change", tag);
try {
  const { models } = await call("/v1/models");
  model.replaceChildren(...models.map((each) => new Option(each.name)));
} catch (error) {
  message.textContent = error.message;
}
