// Containers: the table, and the details of one container.

import {card, element, link, named, setText} from "../core/dom.js";
import {bytes, cores, count, FIELDS, known, moment, percent, rate, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {address} from "../core/router.js";
import {sparkCell} from "../core/sparks.js";
import {linkCell, Table} from "../core/table.js";
import {detailHead, everyDetail, envelopeCard, historyCharts, movesCard, pressureFacts} from "./details.js";
import {drawFacts, labelText, nodeLink} from "./nodes.js";
import {rankTable} from "./hints.js";

/** A table of containers with `fixed` filters, `without` some columns. */
export function containersTable(scope, fixed = {}, without = []) {
  const columns = [
    {key: "name", title: "Container", sort: "name", fill: (cell, each) => linkCell(cell, address("containers", each.id), each.name, without.includes("service") ? each.id.slice(0, 12) : each.service ?? each.image)},
    {key: "node", title: "Node", sort: "node", hide: "phone", fill: (cell, each) => linkCell(cell, address("nodes", each.node), each.node, each.node_state === "up" ? null : `node ${each.node_state}`)},
    {key: "cpu", title: "CPU cores", number: true, sort: "cpu", text: (each) => cores(each.used.cpu_cores)},
    {key: "need", title: "CPU need", term: "envelope", number: true, hide: "narrow", text: (each) => cores(each.envelope.need.cpu_cores)},
    {key: "memory", title: "Memory", number: true, sort: "memory", hide: "phone", text: (each) => bytes(each.used.memory_bytes)},
    {key: "disk", title: "Disk", number: true, sort: "disk", hide: "narrow", text: (each) => rate(each.used.disk_bytes_per_second)},
    {key: "network", title: "Network", number: true, sort: "network", hide: "narrow", text: (each) => rate(each.used.network_bytes_per_second)},
    {key: "watts", title: "Watts", number: true, sort: "watts", text: (each) => watts(each.power?.watts)},
    {key: "source", title: "Source", term: "source", hide: "narrow", text: (each) => each.power ? `${each.power.source} ± ${percent(each.power.error_ratio)}` : "–"},
    {key: "spark", title: "6 hours", hide: "phone", fill: (cell, each) => sparkCell(cell, "containers", each.id, scope.signal)},
  ].filter((column) => !without.includes(column.key));
  const table = new Table(scope, {
    name: "containers", path: "/v1/containers", list: "containers", fixed: {...fixed, means: false}, order: "watts", reverse: true, every: 10,
    searchLabel: "Search name, service, image, node, id", key: (each) => `${each.node}/${each.id}`, empty: "No container is running. A new container appears with the next sample.", columns,
  });
  scope.on(["event", "missed"], () => table.task.soon());
  return table;
}

export function containersView(scope) {
  scope.root.append(element("div.head", {}, element("h1", {}, "Containers")), containersTable(scope).root);
}

export function containerView(scope) {
  const [, id] = scope.parts;
  const head = detailHead(scope, "Containers", "#/containers", id);
  const power = element("p.figure.watts");
  const powerNote = element("p.soft");
  const facts = element("dl.facts", {"data-testid": "detail-facts"});
  const waiting = element("dl.facts");
  const envelope = envelopeCard();
  let current = null;
  const lines = (resource) => current ? [
    {name: "limit", kind: "limit", value: current.limit[FIELDS[resource]]},
    {name: "reservation", kind: "reservation", value: current.reservation[FIELDS[resource]]},
    {name: "envelope", kind: "need", value: current.envelope.need[FIELDS[resource]]},
  ] : [];
  const history = historyCharts(scope, "containers", id, lines, () => current?.pressure);
  const why = whyCard(scope, () => current);
  scope.root.firstChild.append(history.choose);
  scope.root.append(element("div.grid", {},
    card("Power now", {class: "card third"}, power, powerNote), card("Container", {class: "card two-thirds"}, facts),
    ...history.cards, envelope.root, card("Pressure and waiting now", {class: "card half"}, waiting), why.root,
    movesCard(scope, () => current && (current.service ? {service: current.service} : {node: current.node}), (step) => step.action.task === id || step.containers.includes(id)),
  ));
  everyDetail(scope, 5, head, "containers", {id}, (found) => {
    const isFirst = current === null;
    current = found;
    head.heading.firstChild.title = found.name.slice(0, 400);
    setText(head.heading.firstChild, found.name);
    draw(found);
    if (!isFirst) return;
    for (const task of scope.tasks) if (task.seconds >= 15) task.now();
  });

  function draw(each) {
    setText(power, each.power ? `${watts(each.power.watts)} ± ${watts(each.power.watts * each.power.error_ratio)}` : "unknown");
    setText(powerNote, each.power ? `${each.power.source}; in addition to the idle power of its node${each.power.idle_watts ? `, of which its share is ${watts(each.power.idle_watts)}` : ""}` : "Its node reports no power.");
    drawFacts(facts, [
      ["Node", keep(facts, each.node, () => nodeLink(each.node))],
      ["Service", each.service ? keep(facts, each.service, () => link(address("services", each.service), named(each.service))) : "none"],
      ["Image", each.image ?? "–"], ["Runtime", each.runtime], ["Id", each.id.slice(0, 12)],
      known(each.started_at) ? ["Started", moment(each.started_at)] : null,
      known(each.restarts) ? ["Restarts", count(each.restarts)] : null,
      each.group ? ["Group", each.group] : null,
      ["CPU time", `${each.cpu_seconds_total.toFixed(0)} s`],
      Object.keys(each.labels).length ? ["Labels", labelText(each.labels)] : null,
      each.node_state === "up" ? null : ["State", `the node is ${each.node_state}; these values may be out of date`],
    ]);
    drawFacts(waiting, [
      ...pressureFacts(each.pressure),
      known(each.cpu_throttled_seconds_total) ? ["Throttled by its limit", `${each.cpu_throttled_seconds_total.toFixed(1)} s in total`] : null,
      known(each.oom_kills_total) ? ["Out-of-memory kills", count(each.oom_kills_total)] : null,
    ]);
    envelope.update({used: each.used, need: each.envelope.need, limit: each.limit, reservation: each.reservation});
    why.ready();
  }
}

/** A link that is replaced only if its text changes. */
function keep(list, key, make) {
  list.kept ??= new Map();
  if (!list.kept.has(key)) list.kept.set(key, make());
  return list.kept.get(key);
}

const MAX_NODES = 10_000;

/** Why a container runs on its node: the decision that placed it, and the rank of the node for a similar container now. */
function whyCard(scope, container) {
  const button = element("button.main", {type: "button", "data-testid": "why-here", disabled: true}, "Why here?");
  const answer = element("div.answer", {"aria-live": "polite"});
  button.addEventListener("click", async () => {
    const {service, image, node, limit, id} = container();
    button.disabled = true;
    try {
      const reserve = Object.fromEntries(["cpu_cores", "memory_bytes"].filter((field) => known(limit[field])).map((field) => [field, limit[field]]));
      const question = {...(service ? {service} : {}), ...(image ? {image} : {}), ...(service ? {} : {reserve}), limit: MAX_NODES};
      const [hint, {decisions}] = await Promise.all([scope.post("/v1/hints/placement", question), scope.get("/v1/decisions", service ? {service} : {node})]);
      const brought = decisions.flatMap((decision) => decision.steps.map((step) => ({decision, step}))).find(({step}) => step.containers.includes(id));
      draw(hint, node, brought);
    } catch (error) {
      answer.replaceChildren(element("p", {}, error.message));
    } finally {
      button.disabled = false;
    }
  });

  function draw(hint, node, brought) {
    const place = hint.nodes.findIndex((each) => each.node === node);
    const origin = brought
      ? `A decision placed it here (${moment(brought.decision.at)}, ${brought.decision.policy}): ${brought.step.action.reasons.join("; ")}`
      : "Wattpack did not place this container: its orchestrator or a user did.";
    const now = place < 0
      ? `For a similar container, ${hint.policy} would not choose this node now${refusalOf(hint, node)}.`
      : `For a similar container, ${hint.policy} ranks this node ${place + 1} of ${hint.nodes.length} now.`;
    const nearby = [...new Set([...hint.nodes.slice(0, 3), ...(place >= 0 ? [hint.nodes[place]] : [])])];
    answer.replaceChildren(element("p", {}, origin), element("p", {}, now), rankTable(nearby, node), element("p.soft", {}, hint.score_is));
  }
  const refusalOf = (hint, node) => {
    const found = hint.refused.find((each) => each.node === node);
    return found ? `: ${found.why}` : "";
  };
  return {root: card("Why here?", {class: "card half"}, button, answer), ready: () => { if (answer.childElementCount === 0) button.disabled = false; }};
}
