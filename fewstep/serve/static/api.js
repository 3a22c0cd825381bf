// The service, as the playground asks it: JSON in, JSON out, a token when one is wanted, refusals in words.

const TOKEN = "fewstep-token";
const PATIENCE = [150, 400, 1000]; // how long to wait, in milliseconds, when the service is busy

/** A refusal: the service's own words, its code and the HTTP status (0 when it did not answer at all). */
export class Refusal extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let askForToken = async () => null;

/** Sets the function that asks the person for a token; it is told whether one was tried already. */
export const onTokenWanted = (ask) => { askForToken = ask; };

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function send(method, path, body) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refusal("The server does not answer. Is it still running? Start it again with the command that started it.", 0, "no_answer");
  }
}

let asking = null;

async function newToken() {
  asking ??= askForToken(Boolean(sessionStorage.getItem(TOKEN))).finally(() => { asking = null; });
  const token = await asking;
  if (token) sessionStorage.setItem(TOKEN, token);
  return Boolean(token);
}

async function refusal(response) {
  const told = await response.json().catch(() => null);
  const error = told?.error ?? {};
  return new Refusal(error.message ?? `The server answered ${response.status}.`, response.status, error.code);
}

let asked = 0; // requests under way; the page tells it, for whoever must wait until all is answered

function count(by) {
  asked += by;
  document.documentElement.dataset.asking = String(asked);
}

async function request(method, path, body) {
  count(1);
  try {
    return await answer(method, path, body);
  } finally {
    count(-1);
  }
}

async function answer(method, path, body) {
  for (let tries = 0; ; ) {
    const sent = sessionStorage.getItem(TOKEN);
    const response = await send(method, path, body);
    if (response.ok) return response.status === 204 ? null : response.json();
    if (response.status === 401 && (sent !== sessionStorage.getItem(TOKEN) || await newToken())) continue;
    if ([429, 503].includes(response.status) && tries < PATIENCE.length) {
      await pause(PATIENCE[tries++]);
      continue;
    }
    throw await refusal(response);
  }
}

/** Waits until the service has compiled what it needs; calls `waiting` when that takes a moment. */
export async function untilReady(waiting) {
  for (let response = await send("GET", "/readyz"); !response.ok; response = await send("GET", "/readyz")) {
    const found = await refusal(response);
    if (found.code !== "not_ready") throw found;
    waiting();
    await pause(500);
  }
}

/** Whether the service is compiling a program that a request waits for. */
export async function compiling() {
  count(1);
  try {
    const response = await send("GET", "/metrics");
    return /^fewstep_compiling [1-9]/m.test(await response.text());
  } catch {
    return false; // whoever waits for an answer is told why none comes
  } finally {
    count(-1);
  }
}

const model = (name) => `/v1/models/${encodeURIComponent(name)}`;

export const models = async () => (await request("GET", "/v1/models")).models;
export const adapt = (name, body) => request("POST", `${model(name)}/adapt`, body);
export const predict = (name, body) => request("POST", `${model(name)}/predict`, body);
export const forget = (name, adapter) => request("DELETE", `${model(name)}/adapters/${encodeURIComponent(adapter)}`);
export const task = (name, body) => request("POST", `${model(name)}/task`, body);
export const runs = async () => (await request("GET", "/v1/runs")).runs;
export const log = async (name, after) =>
  (await request("GET", `/v1/runs/${encodeURIComponent(name)}/log?after=${after}`)).rows;

/**
 * Wraps work so that one is under way and at most one waits: calls that come meanwhile become one call afterwards, with
 * what is true then. So answers never queue up behind a fast hand.
 */
export function latest(work) {
  let running = null;
  let again = false;
  return () => {
    again = true;
    running ??= (async () => {
      try {
        while (again) {
          again = false;
          await work();
        }
      } finally {
        running = null;
      }
    })();
    return running;
  };
}
