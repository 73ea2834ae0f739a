// Parts that the details of nodes, services and containers share: charts, envelope with limit and reservation, alerts,
// moves.

import {complete, TimeChart, PERIODS, periodButtons, stepOf} from "../core/charts.js";
import {card, element, link, named, reconcile, setText} from "../core/dom.js";
import {amount, bytes, cores, FIELDS, known, moment, RESOURCE_NAMES, RESOURCES, rate, waiting, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {remember} from "../core/router.js";
import {drawAlerts} from "./alerts.js";
import {stepItem} from "./actions.js";

const FORMATS = {cpu: cores, memory: bytes, disk: rate, network: rate};
const TITLES = {cpu: "CPU, cores", memory: "Memory", disk: "Disk", network: "Network"};
const MAX_MOVES = 20;

/** The head of a detail view: a link to the list, the name, and more elements such as a state. */
export function detailHead(scope, title, href, name, ...more) {
  const heading = element("h1", {"data-testid": "detail-name"}, named(name));
  const error = element("p.empty", {hidden: true, role: "alert"});
  scope.root.append(element("div.head", {}, element("div.crumb", {}, link(href, title)), heading, ...more), error);
  return {
    heading,
    /** Show that the entry does not exist; null hides the message. */
    missing(text) {
      error.hidden = !text;
      setText(error, text ?? "");
    },
  };
}

/** Load an entry of a list (`kind`) repeatedly; if it no longer exists, show that and keep its history. */
export function everyDetail(scope, seconds, head, kind, filter, draw) {
  return scope.every(seconds, async () => {
    try {
      const {[kind]: found} = await scope.get(`/v1/${kind}`, filter);
      head.missing(null);
      // If two nodes report the same container, the one that is up knows more.
      draw(found.find((each) => each.node_state === "up") ?? found[0]);
    } catch (error) {
      if (error.status !== 404) throw error;
      head.missing(error.message);
    }
  });
}

/**
 * Charts of power, the four resources and, for a node or container, pressure. `lines` returns the constants of a
 * resource, `pressure` the current pressure.
 */
export function historyCharts(scope, kind, name, lines = () => [], pressure = null) {
  let period = PERIODS[scope.parameters.get("range")] ? scope.parameters.get("range") : "1h";
  const power = new TimeChart({title: "Power", format: watts, id: "chart-watts", height: 180});
  const charts = RESOURCES.map((each) => [each, new TimeChart({
    title: TITLES[each], format: FORMATS[each], base: each === "cpu" ? 10 : 1024, id: `chart-${each}`, height: 150,
  })]);
  const waits = pressure ? pressureCard(pressure) : null;
  const task = scope.every(15, async () => {
    const end = Math.floor(Date.now() / 1000);
    const frame = {start: end - PERIODS[period], end};
    const requested = period;
    const history = await scope.get("/v1/history", {[kind.slice(0, -1)]: name, ...frame, step_seconds: stepOf(period)});
    if (requested !== period) return;
    const step = history.step_seconds;
    const points = complete(history, kind, end);
    const times = points.map((point) => point.at);
    power.update({...frame, step, times, series: [
      {name: "mean", kind: "containers", values: points.map((point) => point.mean_watts ?? null)},
      {name: "highest", kind: "highest", values: points.map((point) => point.max_watts ?? null)},
    ]});
    for (const [resource, chart] of charts) {
      chart.update({...frame, step, times, lines: lines(resource), series: [
        {name: "mean", kind: resource, values: points.map((point) => point.mean[FIELDS[resource]] ?? null)},
        {name: "highest", kind: "highest", values: points.map((point) => point.max[FIELDS[resource]] ?? null)},
      ]});
    }
    waits?.update({...frame, step, times}, points);
  });
  const choose = periodButtons(period, (name) => {
    period = name;
    remember({range: name});
    task.now();
  });
  const cards = [
    card("Power", {class: "card"}, power.root),
    ...charts.map(([resource, chart]) => card(TITLES[resource], {class: "card half"}, chart.root)),
    ...(waits ? [waits.root] : []),
  ];
  return {choose, cards, task};
}

const PRESSURES = ["cpu", "memory", "disk"];

/** The current pressure of each resource with a known value. */
export const pressureFacts = (now) => PRESSURES.filter((each) => known(now[`${each}_ratio`])).map((each) => [RESOURCE_NAMES[each], `${waiting(now[`${each}_ratio`])} of the time`]);

/** The share of time in which tasks waited, per resource; a sentence if it is not measured. */
function pressureCard(now) {
  const chart = new TimeChart({title: "Pressure", format: waiting, id: "chart-pressure", height: 150});
  const note = element("p.soft");
  const lines = (points, field) => PRESSURES.map((each) => points.map((point) => point[field][`${each}_ratio`] ?? null));
  return {
    root: card(term("pressure", "Pressure"), {class: "card"}, note, chart.root),
    update(frame, points) {
      const [means, highest] = [lines(points, "mean_pressure"), lines(points, "max_pressure")];
      const isKnown = means.flat().some(known);
      chart.root.hidden = !isKnown;
      const isMeasured = Object.values(now() ?? {}).some(known);
      setText(note, isKnown ? "Share of time in which at least one task waited. Lines: mean; dotted: highest sample."
        : isMeasured ? "No pressure in this period." : "The kernel of this node does not measure pressure (PSI).");
      if (!isKnown) return;
      chart.update({...frame, series: [
        ...PRESSURES.map((each, place) => ({name: RESOURCE_NAMES[each], kind: each, values: means[place]})),
        ...PRESSURES.map((each, place) => ({name: `${RESOURCE_NAMES[each]}, highest`, kind: each, values: highest[place], isFaint: true})),
      ].filter((each) => each.values.some(known))});
    },
  };
}

/** One bar per resource: current usage and envelope, with marks for limit and reservation. */
export function envelopeCard(title = "Envelope, limit and reservation", limitName = "limit", barName = "used") {
  const body = element("div.envelope", {"data-testid": "detail-envelope"});
  const root = card(title, {class: "card half"}, body, element("p.soft", {}, `Bar: ${barName}. Shaded: `, term("envelope"),
    `. Red mark: ${limitName}. Blue mark: `, term("reservation (of a container)", "reservation"), "."));
  return {
    root,
    update({used = {}, need = {}, limit = {}, reservation = {}}) {
      const rows = RESOURCES.map((resource) => {
        const of = (quantities) => quantities[FIELDS[resource]];
        return {resource, used: of(used), need: of(need), limit: of(limit), reservation: of(reservation)};
      }).filter((row) => [row.used, row.need, row.limit, row.reservation].some(known));
      reconcile(body, rows.flatMap((row) => ["name", "rail", "text"].map((part) => ({...row, part}))), (row) => `${row.resource}-${row.part}`, make, draw);
    },
  };
  function make({resource, part}) {
    if (part === "name") return element("span", {}, RESOURCE_NAMES[resource]);
    if (part === "text") return element("small");
    return element("span.rail", {"aria-hidden": "true"}, element("span.need"), element("span.used"), element("span.reservation"), element("span.limit"));
  }
  function draw(child, row) {
    if (row.part === "text") {
      const texts = [[barName, row.used], ["envelope", row.need], ["reservation", row.reservation], [limitName, row.limit]];
      setText(child, texts.filter(([, value]) => known(value)).map(([name, value]) => `${name} ${amount(row.resource, value)}`).join(" · "));
    }
    if (row.part !== "rail") return;
    const whole = Math.max(...[row.used, row.need, row.limit, row.reservation].filter(known)) * 1.05 || 1;
    const share = (value) => `${((value ?? 0) / whole * 100).toFixed(1)}%`;
    const [need, used, reservation, limit] = child.children;
    need.style.width = share(row.need);
    used.style.width = share(row.used);
    for (const [marker, value] of [[reservation, row.reservation], [limit, row.limit]]) {
      marker.hidden = !known(value);
      marker.style.left = share(value);
    }
  }
}

/** Alerts about one node or service, open and closed. */
export function alertsCard(scope, subject) {
  const list = element("ul.alerts", {"data-testid": "detail-alerts", tabindex: "0", "aria-label": "Alerts"});
  const none = element("p.soft", {}, "No open or recent alerts.");
  const task = scope.every(30, async () => {
    const {alerts} = await scope.get("/v1/alerts", {subject, limit: 20, order: "severity"});
    drawAlerts(list, alerts);
    none.hidden = alerts.length > 0;
    list.hidden = alerts.length === 0;
  });
  scope.on(["alert", "missed"], () => task.soon());
  return card(term("alert", "Alerts"), {class: "card half"}, none, list);
}

/** Steps of decisions about one entry, the latest first. */
export function movesCard(scope, filter, isAbout = () => true) {
  const list = element("ol.steps-list", {"data-testid": "detail-moves"});
  const none = element("p.soft", {}, "No planned or completed moves.");
  scope.every(60, async () => {
    const parameters = filter();
    if (!parameters) return;
    const {decisions} = await scope.get("/v1/decisions", {...parameters, limit: 200});
    const steps = decisions.flatMap((decision) => decision.steps.filter(isAbout).map((step) => ({decision, step}))).slice(0, MAX_MOVES);
    none.hidden = steps.length > 0;
    reconcile(list, steps, ({decision, step}) => `${decision.id}${JSON.stringify(step.action)}${step.state}`, ({decision, step}) => {
      const item = stepItem(step);
      item.append(element("small", {}, link(`#/decisions?id=${encodeURIComponent(decision.id)}`, `${moment(decision.at)}, ${decision.policy}${decision.dry ? ", not carried out" : ""}`)));
      return item;
    });
  });
  return card("Moves", {class: "card half"}, none, list);
}
