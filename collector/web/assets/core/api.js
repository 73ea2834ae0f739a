// Requests to the collector. The token of someone who may act stays in memory: it is never in an address, and gone
// when the page closes.

const TIMEOUT_MS = 20_000;

let token = null;
export const hasToken = () => token !== null;
export const setToken = (text) => { token = text; };

/** An error response of the collector, with its own sentence. */
export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Whether an error says nothing but that a request was cancelled. */
export const isCancelled = (error) => error.name === "AbortError";

async function request(path, options) {
  const signals = [AbortSignal.timeout(TIMEOUT_MS), options.signal].filter(Boolean);
  const headers = {...options.headers, ...(token === null ? {} : {Authorization: `Bearer ${token}`})};
  // A page that was opened with credentials in its address may not resolve others against that address.
  const answer = await fetch(location.origin + path, {...options, headers, signal: AbortSignal.any(signals)});
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, body.detail ?? `status ${answer.status}`);
  return body;
}

/** The query of a path, without what is not set. */
export function query(parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

export const ask = (path, parameters = {}, signal = undefined) => request(path + query(parameters), {signal});

export const post = (path, body = {}, signal = undefined) => request(path, {
  method: "POST", body: JSON.stringify(body), headers: {"Content-Type": "application/json"}, signal,
});
