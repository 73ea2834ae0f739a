// Live updates of a view: the event stream, and repeated requests. Both pause while the page is hidden.

import {get, getText, isCancelled, post} from "./api.js";

const CLOSED_RETRY_MS = 30_000;
const FAILED_RETRY_MS = 5000;
const LONGEST_MS = 3_600_000;
const SETTLE_MS = 400;
/** A repeated request may take this share of the collector's time: slow requests are repeated less often. */
const SHARE = 0.0025;
const TOPICS = ["node", "alert", "event", "missed", "end"];

/** State of the connection, for the header. */
export const connection = new EventTarget();
let answeredAt = null;
/** The shortest response time so far: about the round trip to the collector. */
let shortest = Infinity;

function report(error) {
  if (error === null) answeredAt = new Date();
  connection.dispatchEvent(new CustomEvent("change", {detail: {error, answeredAt}}));
}

/** The event stream of the collector, shared by all views. */
class Stream extends EventTarget {
  start() {
    document.addEventListener("visibilitychange", () => document.hidden ? this.close() : this.open());
    this.open();
  }

  open() {
    this.close();
    if (document.hidden) return;
    this.source = new EventSource(`${location.origin}/v1/stream`);
    for (const topic of TOPICS) this.source.addEventListener(topic, (message) => this.receive(topic, message));
    this.source.onerror = () => {
      // A rejected stream does not reconnect by itself.
      if (this.source?.readyState === EventSource.CLOSED) this.retry = setTimeout(() => this.open(), CLOSED_RETRY_MS);
    };
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  receive(topic, message) {
    this.dispatchEvent(new CustomEvent(topic, {detail: JSON.parse(message.data)}));
  }
}
export const stream = new Stream();

/** A request that repeats while its view is shown. */
class Task {
  constructor(scope, seconds, run) {
    Object.assign(this, {scope, seconds, run, timer: null, running: false, again: null, due: 0, rest: seconds * 1000, rested: 0});
  }

  /** Run soon, but no more often than its share of the time allows: several calls at once make one request. */
  soon() {
    const milliseconds = Math.max(SETTLE_MS, this.rested - performance.now());
    if (this.running) this.again ??= "soon";
    // A further call does not delay the request of an earlier one: calls may arrive without a pause.
    else if (performance.now() + milliseconds < this.due) this.wait(milliseconds);
  }

  /** Run now, or as soon as the current request ends: several calls meanwhile make one request. */
  now() {
    if (this.running) this.again = "now";
    else this.start();
  }

  wait(milliseconds) {
    clearTimeout(this.timer);
    this.due = performance.now() + milliseconds;
    if (!this.scope.signal.aborted && !document.hidden) this.timer = setTimeout(() => this.start(), milliseconds);
  }

  wake() {
    if (document.hidden) clearTimeout(this.timer);
    else if (!this.running) this.wait(Math.max(0, this.due - performance.now()));
  }

  async start() {
    clearTimeout(this.timer);
    [this.running, this.again, this.due] = [true, null, Infinity];
    const began = performance.now();
    let next = FAILED_RETRY_MS;
    try {
      await this.run(this.scope);
      if (this.scope.signal.aborted) return;
      report(null);
      const took = performance.now() - began;
      shortest = Math.min(shortest, took);
      // The first requests of a view wait for each other: one slow response at most doubles the time until the next.
      const rest = Math.min((took - shortest) / SHARE, 2 * this.rest);
      this.rest = Math.min(LONGEST_MS, Math.max(this.seconds * 1000, rest));
      this.rested = performance.now() + rest;
      next = this.rest;
    } catch (error) {
      if (this.scope.signal.aborted || isCancelled(error)) return;
      report(error);
      this.rested = performance.now() + FAILED_RETRY_MS;
    } finally {
      this.running = false;
    }
    if (this.again === "now") this.start();
    else if (this.again === "soon") this.soon();
    else this.wait(next);
  }
}

/** A view on the screen: its requests end with it. */
export class Scope {
  constructor(root, parts, parameters) {
    Object.assign(this, {root, parts, parameters, tasks: []});
    this.controller = new AbortController();
    this.signal = this.controller.signal;
    document.addEventListener("visibilitychange", () => this.tasks.forEach((task) => task.wake()), {signal: this.signal});
  }

  /** Run now and then every `seconds`, or less often if the response takes long. */
  every(seconds, run) {
    const task = new Task(this, seconds, run);
    this.tasks.push(task);
    task.now();
    return task;
  }

  /** Call for messages of the event stream. */
  on(topics, call) {
    for (const topic of topics) stream.addEventListener(topic, (event) => call(event.detail), {signal: this.signal});
  }

  get(path, parameters) {
    return get(path, parameters, this.signal);
  }

  getText(path, parameters) {
    return getText(path, parameters, this.signal);
  }

  post(path, body) {
    return post(path, body, this.signal);
  }

  close() {
    this.controller.abort();
    for (const task of this.tasks) clearTimeout(task.timer);
  }
}
