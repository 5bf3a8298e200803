// The HTTP API, asked with the cookie of the session and the token that changes need.

export const session = { user: null, tags: [], token: "" };

export class ApiError extends Error {
  constructor(status, body) {
    const reason = body?.reason ?? body?.error ?? `the server says ${status}`;
    super(typeof reason === "string" ? reason : JSON.stringify(reason));
    this.status = status;
    this.code = body?.error;
  }
}

// Names in a path: path`queues/${vhost}/${queue}`. A stray octet of a name arrives as a lone surrogate.
export function path(texts, ...names) {
  return texts.reduce((whole, text, index) => whole + encode(names[index - 1]) + text);
}

export function encode(name) {
  let encoded = "";
  for (const character of String(name)) {
    const code = character.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) encoded += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else encoded += code >= 0xd800 && code <= 0xdfff ? "%EF%BF%BD" : encodeURIComponent(character);
  }
  return encoded;
}

// The other way: octets that are no UTF-8 become lone surrogates again.
export function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/(%[0-9A-Fa-f]{2})+/g, (run) => {
      try {
        return decodeURIComponent(run);
      } catch {
        return run.replace(/%([0-7][0-9A-Fa-f])|%([89A-Fa-f][0-9A-Fa-f])/g, (_, low, high) =>
          String.fromCharCode(low ? parseInt(low, 16) : 0xdc00 + parseInt(high, 16)));
      }
    });
  }
}

export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length ? `?${pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join("&")}` : "";
}

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { cache: "no-store", credentials: "same-origin", ...options });
  } catch {
    tellState(false, "the management process does not answer");
    throw new ApiError(0, { reason: "the management process does not answer" });
  }
  const text = await response.text();
  const body = text && response.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text || null;
  if (response.ok) {
    tellState(true, "", response.headers.get("x-stale-nodes"));
    return body;
  }
  const error = new ApiError(response.status, body);
  if (error.code === "session_ended") document.dispatchEvent(new CustomEvent("session-ended"));
  if (response.status === 503 && error.code !== "failed") tellState(false, error.message);
  throw error;
}

function tellState(isThere, reason, stale = null) {
  document.dispatchEvent(new CustomEvent("node-state", { detail: { isThere, reason, stale } }));
}

export function request(method, where, body, headers = {}) {
  const said = { "x-csrf-token": session.token, accept: "application/json", ...headers };
  if (body !== undefined) said["content-type"] = "application/json";
  return ask(`api/${where}`, { method, headers: said, body: body === undefined ? undefined : JSON.stringify(body) });
}

export const get = (where) => request("GET", where);
export const put = (where, body = {}) => request("PUT", where, body);
export const post = (where, body = {}) => request("POST", where, body);
export const remove = (where, headers) => request("DELETE", where, undefined, headers);

function take(said) {
  session.user = said.user?.name ?? null;
  session.tags = said.user?.tags ?? [];
  session.token = said.token ?? "";
  return session.user !== null;
}

export async function whoAmI() {
  return take(await ask("session", { headers: { "x-csrf-token": "" } }));
}

export async function logIn(username, password) {
  return take(await ask("login", { method: "POST", body: new URLSearchParams({ username, password }) }));
}

export async function logOut() {
  try {
    await ask("logout", { method: "POST", headers: { "x-csrf-token": session.token } });
  } finally {
    take({});
  }
}

export const isAdministrator = () => session.tags.includes("administrator");
export const isMonitor = () => isAdministrator() || session.tags.includes("monitoring");
// Who is more than a viewer: the rest is a matter of permissions.
export const mayChange = () => ["management", "policymaker", "monitoring", "administrator"].some((tag) => session.tags.includes(tag));
export const mayClose = (user) => isAdministrator() || (mayChange() && user === session.user);
export const isPolicymaker = () => isAdministrator() || session.tags.includes("policymaker");
