// Plans and decisions as text.

import {element, link} from "../core/dom.js";
import {amount, duration, energy, known, moment, plural, RESOURCES, FIELDS, signed, watts} from "../core/format.js";
import {address} from "../core/router.js";

const bdi = (text) => element("bdi", {}, text);
const nodeLink = (name) => link(address("nodes", name), bdi(name));
const serviceLink = (name) => link(address("services", name), bdi(name));
const containerLink = (action) => link(address("containers", action.task), bdi(action.name || action.task.slice(0, 12)));

function amounts(quantities) {
  const parts = RESOURCES.filter((each) => known(quantities[FIELDS[each]])).map((each) => amount(each, quantities[FIELDS[each]]));
  return parts.join(" and ") || "no limit";
}

const WORDS = {
  move: (action) => ["Move ", containerLink(action), " from ", nodeLink(action.node), " to ", nodeLink(action.target)],
  cut: (action) => ["Limit ", containerLink(action), " on ", nodeLink(action.node), ` to ${amounts(action.allocated)}`],
  kill: (action) => action.target
    ? ["Stop ", containerLink(action), " on ", nodeLink(action.node), " and start it on ", nodeLink(action.target)]
    : ["Stop ", containerLink(action), " on ", nodeLink(action.node), " until there is room"],
  start: (action) => ["Start ", containerLink(action), " on ", nodeLink(action.target)],
  "power-on": (action) => ["Switch ", nodeLink(action.node), " on"],
  "power-off": (action) => ["Switch ", nodeLink(action.node), " off"],
  scale: (action) => ["Scale ", serviceLink(action.service), ` from ${action.replicas_before} to ${plural(action.replicas, "replica")}`],
  resize: (action) => ["Limit each replica of ", serviceLink(action.service), ` to ${amount("cpu", action.cpu_limit_cores)}`],
};

/** An action as an instruction, with links. */
export const describe = (action) => (WORDS[action.kind] ?? ((each) => [each.kind]))(action);

/** Savings and costs of an action. The savings of emptying a node are shown once, where it is switched off. */
export function effect(action, actions = []) {
  const parts = [];
  const countedThere = action.kind === "move" && actions.some((each) => each.kind === "power-off" && each.node === action.node);
  if (action.gain_watts && !countedThere) parts.push(`saves ${watts(action.gain_watts)}`);
  if (action.cost_joules) parts.push(`costs ${energy(action.cost_joules)} once`);
  return parts.join(", ");
}

/** The watts of a plan before and after. */
export function saving({watts_before: before, watts_after: after}) {
  if (!known(before) || !known(after)) return "Its effect on power is unknown.";
  const difference = after - before;
  if (Math.abs(difference) < 0.005) return `Power stays at ${watts(before)}.`;
  return `${watts(before)} → ${watts(after)} (${signed(watts)(difference)}, ${Math.round(Math.abs(difference) / before * 100)}%)`;
}

/** A step of a decision: action, state, reasons and duration. */
export function stepItem(step) {
  const times = [
    known(step.started_at) ? `started ${moment(step.started_at)}` : null,
    known(step.done_at) && known(step.started_at) ? `done after ${duration(step.done_at - step.started_at)}` : null,
    known(step.ended_at) && known(step.done_at) ? `ended after ${duration(step.ended_at - step.done_at)} more` : null,
  ].filter(Boolean).join(", ");
  const notes = [effect(step.action), times, step.guard ? `guard ${step.guard}` : "", step.why, step.what].filter(Boolean).join(" · ");
  return element("li", {}, ...describe(step.action), " ", element(`span.badge.${step.state}`, {}, step.state),
    ...(notes ? [element("small", {}, notes)] : []), ...reasons(step.action.reasons));
}

/** Reasons as small text. */
export const reasons = (texts) => texts.map((text) => element("small", {}, text));

const TRIGGERS = {alert: "on an alert", timer: "on the timer", request: "on request", waiting: "for waiting containers",
  elastic: "by load", brownout: "in a shortage"};

/** A decision as one line. */
export function decisionTitle(decision) {
  const steps = decision.steps.length;
  const what = steps === 0 ? "nothing to do" : plural(steps, "step");
  return `${decision.policy}, ${TRIGGERS[decision.trigger] ?? decision.trigger}: ${what}`;
}

/** What the decisions of a policy brought, as a sentence. */
export function brought({effects, alerts, closed_alerts: closed, measured, saved_joules: saved, error_joules: error, promised_joules: promised, short_seconds_before: before, short_seconds_after: after}) {
  const judged = Object.entries(effects).map(([name, number]) => `${number} ${name}`).join(", ");
  return [
    judged || "no verdict yet",
    alerts ? `${closed} of ${plural(alerts, "alert")} ended` : "",
    measured ? `saved ${energy(saved)} ± ${energy(error)} of ${energy(promised)} promised` : "",
    before || after ? `short for ${duration(before)} before, ${duration(after)} after` : "",
  ].filter(Boolean).join("; ");
}
