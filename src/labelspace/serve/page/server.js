// Calls of the server: errors as sentences, a token where one is needed, word when it is gone.
const TOKEN = "labelspace-token";
const alertBox = document.getElementById("alert");
let signingIn = null;

export class ServerError extends Error {
  constructor(status, detail, retryAfter = null) {
    super(detail);
    Object.assign(this, { status, retryAfter }); // seconds, of a server that is busy
  }
}

/** The answer to a GET, or to a POST with a body, as JSON or as bytes. */
export async function call(path, { body, signal, bytes = false } = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...(token && { Authorization: `Bearer ${token}` }), ...(body && { "Content-Type": "application/json" }) };
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    waitForServer();
    throw new ServerError(0, "The server cannot be reached.");
  }
  if (answer.status === 401) {
    await signIn(token ? (await answer.json().catch(() => ({}))).detail : "");
    return call(path, { body, signal, bytes });
  }
  if (!answer.ok) {
    const { detail = answer.statusText } = await answer.json().catch(() => ({}));
    throw new ServerError(answer.status, detail, Number(answer.headers.get("Retry-After")) || null);
  }
  if (bytes) return new Uint8Array(await answer.arrayBuffer());
  return answer.status === 204 ? null : answer.json();
}

/** Ask for a token, once for all calls that wait for it; `why` is what is wrong with the last one. */
function signIn(why) {
  signingIn ??= new Promise((resolve) => {
    const dialog = document.getElementById("sign-in"), field = document.getElementById("token");
    const error = document.getElementById("sign-in-error");
    error.hidden = !why;
    error.textContent = why ? `${why[0].toUpperCase()}${why.slice(1)}.` : "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, field.value.trim());
      field.value = "";
      signingIn = null;
      resolve();
    }, { once: true });
  });
  return signingIn;
}

let waiting = 0;

/** Say that the server is gone until it answers again, and tell the page then. */
function waitForServer() {
  alertBox.textContent = "The server cannot be reached. Your text is kept; the page goes on when the server is back.";
  alertBox.hidden = false;
  if (waiting) return;
  waiting = setInterval(async () => {
    const answer = await fetch("/health/ready").catch(() => null);
    if (!answer?.ok) return;
    clearInterval(waiting);
    waiting = 0;
    alertBox.hidden = true;
    document.dispatchEvent(new Event("server-back"));
  }, 2000);
}

/** Show an error that belongs to no part of the page. */
export function report(error) {
  if (error.name === "AbortError" || error.status === 0) return;
  alertBox.textContent = error.message;
  alertBox.hidden = false;
}

export function clearReport() {
  if (!waiting) alertBox.hidden = true;
}
