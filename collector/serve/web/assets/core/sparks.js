// Sparklines of visible rows: requested a few at a time, and cached for some minutes.

import {get, isCancelled} from "./api.js";
import {complete, sparkline} from "./charts.js";

const HOURS = 6;
const STEP_SECONDS = 600;
const KEPT_MS = 300_000;
const MAX_KEPT = 500;
const AT_ONCE = 3;

const kept = new Map();
let running = 0;
let waiting = [];
let urgent = 0;

/** Wait for a request for rows. Sparklines wait meanwhile, so that the collector responds sooner. */
export async function beforeSparks(response) {
  urgent += 1;
  try {
    return await response;
  } finally {
    urgent -= 1;
    for (let more = running; more < AT_ONCE; more += 1) next();
  }
}

/** Show the watts of the last hours in a cell; `kind` is nodes, services or containers. */
export function sparkCell(cell, kind, name, signal) {
  const key = `${kind}/${name}`;
  if (cell.dataset.spark === key && cell.firstChild && !isOld(kept.get(key))) return;
  const found = kept.get(key);
  if (cell.dataset.spark !== key || (found && !isOld(found))) cell.replaceChildren(...(found ? [sparkline(found.values)] : []));
  cell.dataset.spark = key;
  if (isOld(found) && !waiting.some((each) => each.key === key)) {
    waiting.push({key, kind, name, cell, signal});
    next();
  }
}

const isOld = (found) => !found || performance.now() - found.at > KEPT_MS;

async function next() {
  // Rows that were scrolled away need no sparkline.
  waiting = waiting.filter((each) => each.cell.isConnected && each.cell.dataset.spark === each.key && !each.signal.aborted);
  if (urgent || running >= AT_ONCE || !waiting.length) return;
  const {key, kind, name, cell, signal} = waiting.shift();
  running += 1;
  try {
    const end = Math.floor(Date.now() / 1000);
    const history = await get("/v1/history", {[kind.slice(0, -1)]: name, start: end - HOURS * 3600, end, step_seconds: STEP_SECONDS}, signal);
    kept.delete(key);
    kept.set(key, {at: performance.now(), values: complete(history, kind, end).map((point) => point.mean_watts)});
    if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value);
    if (cell.dataset.spark === key) cell.replaceChildren(sparkline(kept.get(key).values));
  } catch (error) {
    if (!isCancelled(error)) kept.set(key, {at: performance.now(), values: []});
  } finally {
    running -= 1;
  }
  next();
}
