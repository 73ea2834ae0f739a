// Alerts as a list, gravest first, for the overview and for details.

import {element, link, mark, put, sync} from "../core/dom.js";
import {moment, RESOURCE_NAMES} from "../core/format.js";
import {address} from "../core/router.js";

const KINDS = {
  node: "bottleneck", promise: "promise", quiet: "does not report", overbooked: "overbooked", limit: "over its limits",
  duplicate: "two machines of this name", service: "overloaded on all nodes",
};
const GRAVE = new Set(["quiet", "promise"]);
const SERVICES = new Set(["service", "promise"]);

function title(alert) {
  const what = [KINDS[alert.kind] ?? alert.kind, RESOURCE_NAMES[alert.resource]].filter(Boolean).join(", ");
  return alert.kind === "quiet" && alert.node_state === "down" ? "down" : what;
}

function notes(alert) {
  const most = alert.name ?? alert.container?.slice(0, 12);
  const closed = alert.closed_at ? `closed ${moment(alert.closed_at)}` : null;
  const state = alert.kind !== "quiet" && alert.node_state && alert.node_state !== "up" ? `the node is ${alert.node_state}` : null;
  return [`since ${moment(alert.opened_at)}`, closed, most ? `top consumer: ${most}` : null, state].filter(Boolean).join(" · ");
}

function item(alert) {
  const name = element("bdi", {}, alert.subject);
  const subject = link(address(SERVICES.has(alert.kind) ? "services" : "nodes", alert.subject), name);
  return element("li", {}, element("b", {}, subject, element("span")), element("span"), element("small"));
}

/** Make a list show these alerts. */
export function drawAlerts(list, alerts) {
  sync(list, alerts, (alert) => alert.id, item, (child, alert) => {
    const [head, evidence, small] = child.children;
    put(head.lastChild, `: ${title(alert)}`);
    put(evidence, alert.evidence);
    put(small, notes(alert));
    mark(child, "class", GRAVE.has(alert.kind) || alert.node_state === "down" ? "grave" : null);
  });
}
