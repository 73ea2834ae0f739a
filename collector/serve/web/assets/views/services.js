// Services: the table; and the details of one service.

import {featureCards} from "../core/cards.js";
import {card, element, reconcile, setAttribute, setText} from "../core/dom.js";
import {amount, bytes, cores, count, duration, FIELDS, moment, percent, plural, RESOURCE_NAMES, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {address} from "../core/router.js";
import {sparkCell} from "../core/sparks.js";
import {linkCell, Table} from "../core/table.js";
import {containersTable} from "./containers.js";
import {alertsCard, detailHead, everyDetail, envelopeCard, historyCharts, movesCard} from "./details.js";
import {drawFacts} from "./nodes.js";

const DOMINANT = [["", "Any dominant resource"], ...Object.entries(RESOURCE_NAMES).map(([value, name]) => [value, `${name} dominates`])];
const RUNNING = [["true", "Running"], ["false", "Not running"], ["", "All services"]];
const STATISTICS = ["mean", "p50", "p90", "p95", "p99", "max", "need"];

export function servicesView(scope) {
  const table = new Table(scope, {
    name: "services", path: "/v1/services", list: "services", order: "watts", reverse: true, searchLabel: "Search services and images", key: (each) => each.name, every: 20,
    empty: "No service is analysed yet. The first analysis takes a minute.",
    filters: [{name: "running", label: "Running", options: RUNNING}, {name: "dominant", label: "Dominant resource", options: DOMINANT}],
    columns: [
      {key: "name", title: "Service", sort: "name", fill: (cell, each) => linkCell(cell, address("services", each.name), each.name, each.image)},
      {key: "containers", title: "Containers", number: true, sort: "containers", text: (each) => count(each.containers)},
      {key: "nodes", title: "Nodes", number: true, sort: "nodes", hide: "phone", text: (each) => count(each.nodes)},
      {key: "cpu", title: "CPU need", term: "envelope", number: true, sort: "cpu", hide: "phone", text: (each) => cores(each.envelope.need.cpu_cores)},
      {key: "memory", title: "Memory need", term: "envelope", number: true, sort: "memory", hide: "phone", text: (each) => bytes(each.envelope.need.memory_bytes)},
      {key: "dominant", title: "Dominant", term: "dominant resource", hide: "narrow", fill: (cell, each) => {
        setAttribute(cell, "title", each.dominant?.explanation?.slice(0, 400));
        setText(cell, each.dominant ? `${RESOURCE_NAMES[each.dominant.resource]} (${percent(each.dominant.confidence)})` : "–");
      }},
      {key: "watts", title: "Watts", number: true, sort: "watts", text: (each) => watts(each.watts)},
      {key: "spark", title: "6 hours", hide: "phone", fill: (cell, each) => sparkCell(cell, "services", each.name, scope.signal)},
    ],
  });
  scope.root.append(element("div.head", {}, element("h1", {}, "Services")), table.root, ...featureCards("services", scope));
}

export function serviceView(scope) {
  const [, name] = scope.parts;
  const head = detailHead(scope, "Services", "#/services", name);
  const power = element("p.figure.watts");
  const powerNote = element("p.soft");
  const facts = element("dl.facts", {"data-testid": "detail-facts"});
  const envelope = envelopeCard("Mean, envelope and maximum of one container", "maximum", "mean");
  const statistics = element("tbody");
  const statisticsTable = element("table.plain", {}, element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "Resource"), ...STATISTICS.map((each) => element("th.number", {scope: "col"}, each)))), statistics);
  const history = historyCharts(scope, "services", name);
  scope.root.firstChild.append(history.choose);
  scope.root.append(element("div.grid", {},
    card("Power now", {class: "card third"}, power, powerNote), card("Service", {class: "card two-thirds"}, facts), ...history.cards, envelope.root,
    card("Usage of one container", {class: "card half"}, element("div.scroll", {tabindex: "0", role: "group", "aria-label": "Statistics"}, statisticsTable)),
    alertsCard(scope, name), movesCard(scope, () => ({service: name}), (step) => step.service === name), ...featureCards("services", scope, {service: name}),
  ), element("h2.gap", {}, "Containers of this service"), containersTable(scope, {service: name}, ["service"]).root);
  everyDetail(scope, 15, head, "services", {name}, (each) => {
    setText(power, watts(each.watts));
    setText(powerNote, `${each.power_weight === 1 ? "" : `Its CPU time takes ${each.power_weight.toFixed(2)} times the average power. `}Sum of all containers, in addition to the idle power of their nodes.`);
    drawFacts(facts, [
      ["Image", each.image || "–"], ["Containers", `${count(each.containers)} on ${plural(each.nodes, "node")}`],
      ["Dominant resource", each.dominant ? `${RESOURCE_NAMES[each.dominant.resource]}, ${percent(each.dominant.confidence)} confidence` : "unknown"],
      each.dominant ? ["Reason", each.dominant.explanation] : null,
      each.dominant && each.dominant.history.length > 1 ? ["Earlier", each.dominant.history.slice(0, -1).map((one) => `${RESOURCE_NAMES[one.resource]} since ${moment(one.since)}`).join(", ")] : null,
      ["Profile", each.profiled ? `learned over ${duration(each.observed_seconds)}` : `not enough samples yet (${duration(each.observed_seconds)})`],
      ["Last seen", moment(each.last_seen_at)],
    ]);
    envelope.update({used: each.envelope.mean, need: each.envelope.need, limit: each.envelope.max});
    reconcile(statistics, Object.keys(FIELDS), (resource) => resource, (resource) => element("tr", {}, element("th", {scope: "row"}, RESOURCE_NAMES[resource]), ...STATISTICS.map(() => element("td.number"))), (row, resource) => {
      STATISTICS.forEach((statistic, place) => {
        const value = each.envelope[statistic][FIELDS[resource]];
        setText(row.children[place + 1], amount(resource, value));
      });
    });
  });
}
