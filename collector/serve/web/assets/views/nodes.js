// Nodes: heat map, table; and the details of one node.

import {featureCards} from "../core/cards.js";
import {card, element, link, named, reconcile, setAttribute, setText} from "../core/dom.js";
import {ago, amount, bytes, cores, count, duration, FIELDS, known, percent, plural, RESOURCE_NAMES, RESOURCES, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {HeatMap} from "../core/heat.js";
import {address} from "../core/router.js";
import {sparkCell} from "../core/sparks.js";
import {linkCell, meterCell, Table} from "../core/table.js";
import {alertsCard, detailHead, everyDetail, envelopeCard, historyCharts, movesCard, pressureFacts} from "./details.js";
import {containersTable} from "./containers.js";

const STATES = [["", "All states"], ["up", "Up"], ["suspect", "Suspect"], ["down", "Down"]];
const USAGES = {LEE: "underused", DEE: "efficient", EED: "overloaded"};
const REGIONS = [["", "Any usage"], ...Object.entries(USAGES)];

/** A badge with the state of a node. */
function stateBadge(cell, node) {
  const text = node.state === "up" ? (node.complete ? "up" : "up, report missing") : `${node.state}, ${ago(node.last_seen_seconds_ago)}`;
  if (!cell.firstChild) cell.append(element("span"));
  setAttribute(cell.firstChild, "class", `badge ${node.state}`);
  setText(cell.firstChild, text);
}

const ratioColumn = (resource, hide) => ({
  key: resource, title: RESOURCE_NAMES[resource], number: true, sort: resource, hide,
  fill: (cell, node) => meterCell(cell, node.used_ratio[`${resource}_ratio`], known(node.used_ratio[`${resource}_ratio`]) ? percent(node.used_ratio[`${resource}_ratio`]) : amount(resource, node.used[FIELDS[resource]]), resource),
});

export function nodesView(scope) {
  const heat = new HeatMap({
    title: "Usage of each node", id: "nodes-heat", rows: RESOURCES.map((key) => ({key, name: RESOURCE_NAMES[key]})),
    onOpen: (column) => { location.hash = address("nodes", column.name); },
  });
  const heatCard = card("Usage of each node, by resource", {hidden: true}, heat.root);
  const table = new Table(scope, {
    name: "nodes", path: "/v1/nodes", list: "nodes", fixed: {means: false}, order: "watts", reverse: true, searchLabel: "Search nodes and labels",
    key: (node) => node.name, every: 10, empty: "No node has reported yet. Start an agent with: wattpack agent",
    filters: [{name: "state", label: "State", options: STATES}, {name: "region", label: "Usage", options: REGIONS}],
    columns: [
      {key: "name", title: "Node", sort: "name", fill: (cell, node) => linkCell(cell, address("nodes", node.name), node.name, plural(node.containers, "container"))},
      {key: "state", title: "State", term: "liveness", sort: "state", hide: "phone", fill: stateBadge},
      ratioColumn("cpu"), ratioColumn("memory", "phone"), ratioColumn("disk", "narrow"), ratioColumn("network", "narrow"),
      {key: "containers", title: "Containers", number: true, sort: "containers", hide: "narrow", text: (node) => count(node.containers)},
      {key: "watts", title: "Watts", number: true, sort: "watts", text: (node) => watts(node.power?.watts)},
      {key: "source", title: "Source", term: "source", hide: "narrow", text: (node) => node.power ? `${node.power.source} ± ${percent(node.power.error_ratio)}` : "–"},
      {key: "spark", title: "6 hours", hide: "phone", fill: (cell, node) => sparkCell(cell, "nodes", node.name, scope.signal)},
    ],
  });
  scope.on(["node", "missed"], () => table.task.soon());
  scope.root.append(element("div.head", {}, element("h1", {}, "Nodes")), heatCard, table.root, ...featureCards("nodes", scope));
  scope.every(10, async () => {
    const map = await scope.get("/v1/cluster/map");
    heatCard.hidden = map.names.length === 0;
    heat.update(map.names.map((name, place) => {
      const values = Object.fromEntries(RESOURCES.map((each) => [each, map.used_ratios[each][place]]));
      return {name, values, isDown: map.states[place] === "down", texts: Object.fromEntries(RESOURCES.map((each) => [each, percent(values[each])]))};
    }));
  });
}

export function nodeView(scope) {
  const [, name] = scope.parts;
  const badge = element("span");
  const head = detailHead(scope, "Nodes", "#/nodes", name, badge);
  const power = element("p.figure.watts");
  const powerNote = element("p.soft");
  const factsList = element("dl.facts", {"data-testid": "detail-facts"});
  const gaps = element("ul.plain-list");
  const gapsCard = card(term("gap", "Not measured"), {class: "card half", hidden: true}, gaps);
  const pressure = element("dl.facts");
  const envelope = envelopeCard("Usage, reservations and capacity", "capacity");
  let node = null;
  const history = historyCharts(scope, "nodes", name, (resource) => node ? [
    {name: "capacity", kind: "limit", value: node.capacity[FIELDS[resource]]},
    {name: "reserved", kind: "reservation", value: node.placement.allocated[FIELDS[resource]]},
  ] : [], () => node?.pressure);
  scope.root.firstChild.append(history.choose);
  scope.root.append(element("div.grid", {},
    card("Power now", {class: "card third"}, power, powerNote),
    card("Node", {class: "card two-thirds"}, factsList),
    ...history.cards, envelope.root, card("Pressure and waiting now", {class: "card half"}, pressure),
    alertsCard(scope, name), movesCard(scope, () => ({node: name}), (step) => [step.action.node, step.action.target].includes(name)), gapsCard,
  ), element("h2.gap", {}, "Containers on this node"), containersTable(scope, {node: name}, ["node"]).root);
  const task = everyDetail(scope, 5, head, "nodes", {name}, (found) => {
    const isFirst = node === null;
    node = found;
    stateBadge(badge, node);
    drawNode(node);
    if (isFirst) history.task.now();
  });
  scope.on(["node", "missed"], () => task.soon());

  function drawNode({power: now, placement, used, capacity}) {
    setText(power, now ? `${watts(now.watts)} ± ${watts(now.watts * now.error_ratio)}` : "unknown");
    setText(powerNote, now ? `${now.source}${now.source_scope === "machine" ? "" : ` (${now.source_scope} measured, the rest estimated)`}: idle ${watts(now.idle_watts)}, system ${watts(now.system_watts)}, containers ${watts(Math.max(0, now.watts - now.idle_watts - now.system_watts))}` : "The node reports no power.");
    drawFacts(factsList, [
      ["Last report", ago(node.last_seen_seconds_ago)], ["Containers", count(node.containers)],
      ["Capacity", [`${cores(capacity.cpu_cores)} cores`, bytes(capacity.memory_bytes)].join(", ")],
      ["Usage", `${USAGES[placement.region]}, overbooking ${percent(placement.overbooking_ratio)}`],
      ["Placement", placement.on ? (placement.accepts ? "accepts containers" : "accepts no containers") : "switched off"],
      placement.task_class === null ? null : ["Strictest class", String(placement.task_class)],
      placement.failures ? ["Recent failures", count(placement.failures)] : null,
      ["Agent", `${node.agent_version ?? "–"}, samples every ${duration(node.sample_seconds)}`],
      known(node.frequency_hertz) ? ["Clock", `${(node.frequency_hertz / 1e9).toFixed(2)} GHz`] : null,
      Object.keys(placement.labels).length ? ["Labels", labelText(placement.labels)] : null,
    ]);
    drawFacts(pressure, [
      ...pressureFacts(node.pressure),
      known(node.load_1m) ? ["Load, 1 min", node.load_1m.toFixed(2)] : null,
      known(node.iowait_ratio) ? ["Waiting for disks", percent(node.iowait_ratio)] : null,
      known(node.steal_ratio) ? ["Stolen by the hypervisor", percent(node.steal_ratio)] : null,
      known(node.disk_busy_ratio) ? ["Busiest disk", percent(node.disk_busy_ratio)] : null,
      known(node.swap_used_bytes) ? ["Swap", bytes(node.swap_used_bytes)] : null,
      known(node.oom_kills_total) ? ["Out-of-memory kills", count(node.oom_kills_total)] : null,
    ]);
    envelope.update({used, limit: capacity, reservation: placement.allocated});
    gapsCard.hidden = node.gaps.length === 0;
    reconcile(gaps, node.gaps, (gap) => gap.what, (gap) => element("li", {}, element("b", {}, gap.what), `: ${gap.why}`));
  }
}

const MAX_LETTERS = 2000;

/** Labels as text. */
export const labelText = (labels) => Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(", ").slice(0, MAX_LETTERS);

/** Show facts in a list; only changed ones are drawn again. */
export function drawFacts(list, rows) {
  const parts = rows.filter(Boolean).flatMap(([name, text]) => [{key: `${name} `, text: name, tag: "dt"}, {key: name, text, tag: "dd"}]);
  reconcile(list, parts, (part) => part.key, (part) => element(part.tag), (child, part) => {
    if (part.text instanceof Node) child.replaceChildren(part.text);
    else setText(child, part.text);
  });
}

export const nodeLink = (name) => link(address("nodes", name), named(name));
