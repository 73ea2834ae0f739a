// Requests to the collector. A token stays in memory: it is never part of a URL, and is lost when the page closes.

const TIMEOUT_MS = 20_000;

let token = null;
export const hasToken = () => token !== null;
export const setToken = (text) => { token = text; };

/** An error response of the collector; `message` is its detail. */
export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Whether an error only means that a request was cancelled. */
export const isCancelled = (error) => error.name === "AbortError";

async function request(path, options) {
  const signals = [AbortSignal.timeout(TIMEOUT_MS), options.signal].filter(Boolean);
  const headers = {...options.headers, ...(token === null ? {} : {Authorization: `Bearer ${token}`})};
  // A page that was opened with credentials in its address may not resolve others against that address.
  const response = await fetch(location.origin + path, {...options, headers, signal: AbortSignal.any(signals)});
  if (response.ok && options.isText) return response.text();
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, body.detail ?? `status ${response.status}`);
  return body;
}

/** The query string of parameters, without those that are not set. */
export function query(parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

export const get = (path, parameters = {}, signal = undefined) => request(path + query(parameters), {signal});

export const getText = (path, parameters = {}, signal = undefined) => request(path + query(parameters), {signal, isText: true});

export const post = (path, body = {}, signal = undefined) => request(path, {
  method: "POST", body: JSON.stringify(body), headers: {"Content-Type": "application/json"}, signal,
});
