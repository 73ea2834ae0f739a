// The cluster at a glance: power over time, energy, states, alerts, the next plan and the last decisions.

import {TimeChart, PERIODS, periodButtons, stepOf} from "../core/charts.js";
import {button, card, element, link, named, reconcile, setAttribute, setText} from "../core/dom.js";
import {bytes, cores, count, energy, known, moment, percent, plural, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {address, remember} from "../core/router.js";
import {drawAlerts} from "./alerts.js";
import {brought, decisionTitle, describe, effect, saving} from "./actions.js";
import {costOf, dayStart, sumDays} from "./accounts.js";

const MAX_ALERTS = 50;
const TOP_SERVICES = 10;
const SHOWN_ACTIONS = 5;
const DAY = 86_400;
const HOUR = 3600;

export function overviewView(scope) {
  const period = PERIODS[scope.parameters.get("range")] ? scope.parameters.get("range") : "24h";
  const parts = {
    power: powerCard(scope, period), alerts: alertsCard(), states: statesCard(), today: energyCard("Energy today", "energy-today"),
    week: energyCard("Last 7 days", "energy-7d"), month: energyCard("Last 30 days", "energy-30d"), services: servicesCard(),
    plan: planCard(), last: lastCard(),
  };
  const welcome = element("p.empty", {hidden: true}, "No node has reported yet. Start an agent on this host with ", element("code", {}, "wattpack agent"), "; it appears here within seconds.");
  scope.root.append(
    element("div.head", {}, element("h1", {}, "Overview")), welcome,
    element("div.grid", {}, parts.power.root, parts.alerts.root, parts.today.root, parts.week.root, parts.month.root,
      parts.states.root, parts.services.root, parts.plan.root, parts.last.root),
  );
  const summary = scope.every(5, async () => {
    const cluster = await scope.get("/v1/cluster");
    const {up, suspect, down} = cluster.nodes;
    welcome.hidden = up + suspect + down > 0;
    parts.power.summary(cluster);
    parts.states.update(cluster);
  });
  const alerts = scope.every(15, async () => {
    const {alerts: open, next} = await scope.get("/v1/alerts", {state: "open", order: "severity", limit: MAX_ALERTS});
    parts.alerts.update(open, next);
  });
  scope.on(["node", "alert", "missed"], () => {
    summary.soon();
    alerts.soon();
  });
  scope.every(120, async () => {
    const now = Date.now() / 1000;
    const {accounts, ...rest} = await scope.get("/v1/energy", {by: "day", start: dayStart(now) - 29 * DAY, end: now, limit: 40});
    const today = dayStart(now);
    for (const [part, days] of [[parts.today, 0], [parts.week, 6], [parts.month, 29]]) {
      part.update(sumDays(accounts, today - days * DAY), rest);
    }
  });
  scope.every(120, async () => {
    const now = Date.now() / 1000;
    // Start at a whole hour: energy is stored by the hour.
    const start = Math.ceil((now - DAY) / HOUR) * HOUR;
    parts.services.update(await scope.get("/v1/energy", {by: "service", start, end: now, limit: TOP_SERVICES}));
  });
  const plan = scope.every(60, async () => parts.plan.update(await scope.post("/v1/hints/rebalance", {})));
  parts.plan.again.addEventListener("click", () => plan.now());
  scope.every(30, async () => {
    const [{decisions}, {deciders}, control] = await Promise.all([
      scope.get("/v1/decisions", {limit: 5}), scope.get("/v1/decisions/effect"), scope.get("/v1/control"),
    ]);
    parts.last.update(decisions, deciders, control);
  });
}

/** Watts of the cluster now, and over time. */
function powerCard(scope, first) {
  const chart = new TimeChart({title: "Power of the cluster", format: watts, stacked: true, height: 240, id: "cluster-chart"});
  const figure = element("p.figure.watts", {"data-testid": "cluster-watts"}, "–");
  const note = element("p.soft");
  let period = first;
  const task = scope.every(20, async () => {
    const end = Math.floor(Date.now() / 1000);
    const start = end - PERIODS[period];
    const requested = period;
    const history = await scope.get("/v1/cluster/history", {start, end, step_seconds: stepOf(period)});
    if (requested === period) chart.update(chartData(history, start, end));
  });
  const choose = periodButtons(period, (name) => {
    period = name;
    remember({range: name});
    task.now();
  });
  const root = card("Power, at the wall", {class: "card two-thirds"}, element("div.bar", {}, element("div", {}, figure, note), choose), chart.root);
  return {
    root,
    summary({power, cpu_cores: all, cpu_cores_used: used, memory_bytes: memory, memory_bytes_used: taken}) {
      setText(figure, power ? `${watts(power.watts)} ± ${watts(power.error_watts)}` : "unknown");
      const parts = power ? `idle ${watts(power.idle_watts)}, system ${watts(power.system_watts)}, containers ${watts(Math.max(0, power.watts - power.idle_watts - power.system_watts))} · ` : "No node reports power. ";
      setText(note, `${parts}${cores(used)} of ${cores(all)} cores, ${bytes(taken)} of ${bytes(memory)} memory`);
    },
  };
}

function chartData({points: all, step_seconds: step}, start, end) {
  // In the last step, some nodes have not reported yet.
  const points = all.length > 1 && all.at(-1).nodes < all.at(-2).nodes ? all.slice(0, -1) : all;
  return {
    start, end, step, times: points.map((point) => point.at),
    series: [
      {name: "idle", kind: "idle", values: points.map((point) => point.idle_watts)},
      {name: "system", kind: "system", values: points.map((point) => point.system_watts)},
      {name: "containers", kind: "containers", values: points.map((point) => point.containers_watts)},
    ],
    band: {
      name: "error", low: points.map((point) => Math.max(0, point.watts - point.error_watts)),
      high: points.map((point) => point.watts + point.error_watts),
    },
  };
}

function alertsCard() {
  const list = element("ul.alerts", {"data-testid": "alerts", "aria-label": "Open alerts, the most severe first", tabindex: "0"});
  const none = element("p.soft", {}, "No open alerts.");
  const more = element("p.soft", {hidden: true}, `Showing the ${MAX_ALERTS} most severe; wattpack alerts lists all.`);
  const root = card(term("alert", "Alerts"), {class: "card third", "aria-live": "polite"}, none, list, more);
  return {
    root,
    update(open, next) {
      drawAlerts(list, open);
      none.hidden = open.length > 0;
      list.hidden = open.length === 0;
      more.hidden = !next;
    },
  };
}

function statesCard() {
  const entry = (kind, to, label) => element("a", {href: to, class: kind}, element("b", {}, "–"), label);
  const up = entry("", "#/nodes?state=up", "up");
  const suspect = entry("", "#/nodes?state=suspect", "suspect");
  const down = entry("", "#/nodes?state=down", "down");
  const note = element("p.soft");
  const root = card(term("liveness", "Nodes"), {class: "card fourth"}, element("div.states", {"data-testid": "node-states"}, up, suspect, down), note);
  return {
    root,
    update({nodes, containers, services}) {
      setText(up.firstChild, count(nodes.up));
      setText(suspect.firstChild, count(nodes.suspect));
      setText(down.firstChild, count(nodes.down));
      setAttribute(suspect, "class", nodes.suspect ? "warn" : "");
      setAttribute(down, "class", nodes.down ? "bad" : "");
      setText(note, `${plural(containers, "container")}, ${plural(services, "service")}`);
    },
  };
}

function energyCard(title, id) {
  const figure = element("p.figure", {"data-testid": id}, "–");
  const note = element("p.soft");
  return {
    root: card(title, {class: "card quarter"}, figure, note),
    update(sums, prices) {
      setText(figure, energy(sums.joules));
      const idle = sums.joules ? `${percent(sums.idle_joules / sums.joules)} idle` : "";
      setText(note, [idle, costOf(sums.joules, prices)].filter(Boolean).join(" · "));
    },
  };
}

function servicesCard() {
  const list = element("ul.bars", {"data-testid": "energy-services"});
  const none = element("p.soft", {}, "No service has used energy in the last 24 hours.");
  const root = card("Top services by energy, last 24 hours", {class: "card third"}, none, list);
  return {
    root,
    update({accounts, ...prices}) {
      none.hidden = accounts.length > 0;
      const most = accounts[0]?.joules || 1;
      reconcile(list, accounts, (each) => each.key ?? "", (each) => element("li", {},
        each.key === null ? element("span", {}, "without a service") : link(address("services", each.key), named(each.key, "bdi.one-line")),
        element("span", {}, element("span"), element("span", {"data-hide": "phone"})), element("span.track", {}, element("span.fill.c-containers"))), (item, each) => {
        const cost = costOf(each.joules, prices);
        setText(item.children[1].firstChild, energy(each.joules));
        setText(item.children[1].lastChild, cost ? ` · ${cost}` : "");
        item.lastChild.firstChild.style.width = `${(each.joules / most * 100).toFixed(1)}%`;
      });
    },
  };
}

function planCard() {
  const figure = element("p.figure", {}, "…");
  const note = element("p.soft");
  const list = element("ol.steps-list");
  const again = button("Plan again", null, {class: "plain-button"});
  const root = card(term("plan", "Next plan"), {class: "card third", "data-testid": "next-plan"}, figure, note, list, element("p", {}, link("#/decisions", "Show reasons")), again);
  return {
    root, again,
    update(plan) {
      const {actions} = plan;
      const gain = known(plan.watts_before) && known(plan.watts_after) ? plan.watts_before - plan.watts_after : null;
      setText(figure, actions.length ? plural(actions.length, "step") : "Nothing to do");
      figure.append(...(actions.length && known(gain) && Math.abs(gain) > 0.005 ? [element("small", {}, ` ${gain > 0 ? "saves" : "costs"} ${watts(Math.abs(gain))}`)] : []));
      setText(note, actions.length ? `${plan.policy}: ${saving(plan)}` : `${plan.policy}${plan.reasons.length ? `: ${plan.reasons[0]}` : ""}`);
      reconcile(list, actions.slice(0, SHOWN_ACTIONS), (action) => JSON.stringify(action), (action) => element("li", {}, ...describe(action), element("small", {}, effect(action, actions))));
    },
  };
}

function lastCard() {
  const status = element("p.soft");
  const list = element("ul.plain-list", {"data-testid": "last-decisions"});
  const week = element("ul.plain-list", {"data-testid": "week"});
  const root = card(term("decision", "Last decisions"), {class: "card third"}, status, list, element("h3", {}, term("verdict", "What this week's brought")), week);
  return {
    root,
    update(decisions, deciders, control) {
      week.previousSibling.hidden = deciders.length === 0;
      reconcile(week, deciders, (each) => each.policy, () => element("li.soft"), (item, each) => setText(item, `${each.policy}: ${brought(each)}`));
      const mode = control.dry_run ? `Dry run (driver ${control.driver}): plans are recorded, but not carried out.` : control.active ? `Plans are carried out by the driver ${control.driver}.` : `Plans are not carried out now${control.pause ? ": paused" : ""}.`;
      setText(status, decisions.length ? mode : `${mode} No decisions yet.`);
      reconcile(list, decisions, (each) => `${each.id}${each.outcome}`, (each) => element("li", {},
        link(`#/decisions?id=${encodeURIComponent(each.id)}`, decisionTitle(each)), " ", element(`span.badge.${each.outcome}`, {}, each.outcome), element("div.soft", {}, `${moment(each.at)} · ${saving(each)}`)));
    },
  };
}
