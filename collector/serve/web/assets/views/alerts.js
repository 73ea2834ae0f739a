// Lists of alerts, for the overview and for details.

import {element, link, reconcile, setAttribute, setText} from "../core/dom.js";
import {moment, RESOURCE_NAMES} from "../core/format.js";
import {address} from "../core/router.js";

const KINDS = {
  node: "bottleneck", promise: "promise", quiet: "does not report", overbooked: "overbooked", limit: "exceeds its limits",
  duplicate: "two machines with this name", service: "overloaded on all nodes",
};
const SEVERE_KINDS = new Set(["quiet", "promise"]);
const SERVICE_KINDS = new Set(["service", "promise"]);

function title(alert) {
  const what = [KINDS[alert.kind] ?? alert.kind, RESOURCE_NAMES[alert.resource]].filter(Boolean).join(", ");
  return alert.kind === "quiet" && alert.node_state === "down" ? "down" : what;
}

function notes(alert) {
  const topConsumer = alert.name ?? alert.container?.slice(0, 12);
  const closed = alert.closed_at ? `closed ${moment(alert.closed_at)}` : null;
  const state = alert.kind !== "quiet" && alert.node_state && alert.node_state !== "up" ? `the node is ${alert.node_state}` : null;
  return [`since ${moment(alert.opened_at)}`, closed, topConsumer ? `top consumer: ${topConsumer}` : null, state].filter(Boolean).join(" · ");
}

function item(alert) {
  const name = element("bdi", {}, alert.subject);
  const subject = link(address(SERVICE_KINDS.has(alert.kind) ? "services" : "nodes", alert.subject), name);
  return element("li", {}, element("b", {}, subject, element("span")), element("span"), element("small"));
}

/** Show alerts in a list. */
export function drawAlerts(list, alerts) {
  reconcile(list, alerts, (alert) => alert.id, item, (child, alert) => {
    const [head, evidence, small] = child.children;
    setText(head.lastChild, `: ${title(alert)}`);
    setText(evidence, alert.evidence);
    setText(small, notes(alert));
    setAttribute(child, "class", SEVERE_KINDS.has(alert.kind) || alert.node_state === "down" ? "severe" : null);
  });
}
