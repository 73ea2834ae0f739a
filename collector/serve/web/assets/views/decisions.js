// Decisions: control loop, current plan, placement hint, and the journal.

import {hasToken, setToken} from "../core/api.js";
import {button, card, element, reconcile, setAttribute, setText} from "../core/dom.js";
import {ago, duration, known, moment, percent, plural, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {brought, decisionTitle, describe, effect, reasons, saving, stepItem} from "./actions.js";
import {hintCard} from "./hints.js";
import {drawFacts} from "./nodes.js";

const MAX_DECISIONS = 100;
const EFFECTS = {helped: "it helped", less: "it brought less than promised", useless: "it was useless", unknown: "its effect cannot be told"};

export function decisionsView(scope) {
  scope.root.append(element("div.head", {}, element("h1", {}, "Decisions")), element("div.grid.loose", {}, controlCard(scope), effectCard(scope), planCard(scope), hintCard(scope), journalCard(scope)));
}

function controlCard(scope) {
  const status = element("dl.facts", {"data-testid": "control-status"});
  const why = element("input", {"aria-label": "Reason for the pause", placeholder: "reason", maxlength: "200"});
  const hours = element("select", {"aria-label": "Length of the pause"}, ...[["", "until resumed"], ["900", "15 minutes"], ["3600", "1 hour"], ["28800", "8 hours"]].map(([value, text]) => element("option", {value}, text)));
  const problem = element("p", {role: "alert", hidden: true});
  const pause = button("Pause", () => act({paused: true, why: why.value, ...(hours.value ? {seconds: Number(hours.value)} : {})}), {"data-testid": "pause"});
  const resume = button("Resume", () => act({paused: false}), {"data-testid": "resume", class: "main"});
  const forget = button("Forget the token", () => {
    setToken(null);
    forget.hidden = true;
  }, {hidden: true});
  const pauseRow = element("p.row", {}, why, hours, pause);
  const resumeRow = element("p.row", {}, resume);
  const draw = (control) => {
    drawFacts(status, [
      ["Mode", control.dry_run ? `dry run: plans are recorded, but not carried out (driver ${control.driver})` : control.active ? `active: the driver ${control.driver} carries out plans` : "not active: plans are not carried out now"],
      ["Policy on alerts", control.policy || "none"], ["Policy on the timer", control.timer_policy || "none"],
      ["Steps in progress", String(control.steps_in_progress)],
      control.pause ? ["Paused", `since ${moment(control.pause.since)}${control.pause.until ? ` until ${moment(control.pause.until)}` : ", until resumed"}${control.pause.why ? `: ${control.pause.why}` : ""}`] : null,
      control.lease_holder ? ["Lease", `held by ${control.lease_holder}`] : null,
      control.problem ? ["Problem", control.problem] : null,
    ]);
    pauseRow.hidden = control.pause !== null;
    resumeRow.hidden = control.pause === null;
  };
  async function act(body) {
    problem.hidden = true;
    try {
      draw(await scope.post("/v1/control", body));
      forget.hidden = !hasToken();
    } catch (error) {
      if ((error.status === 401 || error.status === 403) && await askForToken(error.message)) return act(body);
      problem.hidden = false;
      setText(problem, error.message);
    }
    return undefined;
  }
  scope.every(10, async () => draw(await scope.get("/v1/control")));
  return card(term("driver", "Control loop"), {class: "card half"}, status, pauseRow, resumeRow, problem, forget);
}

/** Ask for a token with more permissions; true if one was entered. It stays in memory. */
function askForToken(why) {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token");
  setText(document.getElementById("token-why"), why);
  input.value = "";
  dialog.returnValue = "";
  document.getElementById("token-cancel").onclick = () => dialog.close("");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "use" && input.value.trim();
      if (given) setToken(input.value.trim());
      input.value = "";
      resolve(Boolean(given));
    }, {once: true});
  });
}

/** Number of steps of a plan that are shown at first. */
const FIRST_STEPS = 5;

function planCard(scope) {
  const summary = element("p", {}, "Planning …");
  const list = element("ol.steps-list", {"data-testid": "plan"});
  const left = element("details", {hidden: true}, element("summary", {}, "Why no other steps"), element("ul.plain-list"));
  const why = element("ul.plain-list");
  let actions = [];
  let visibleSteps = FIRST_STEPS;
  const task = scope.every(60, async () => {
    const plan = await scope.post("/v1/hints/rebalance", {});
    setText(summary, plan.actions.length ? `${plan.policy} would take ${plural(plan.actions.length, "step")}: ${saving(plan)}` : `${plan.policy} would do nothing.`);
    reconcile(why, plan.reasons, (text) => text, (text) => element("li.soft", {}, text));
    actions = plan.actions;
    drawSteps();
    left.hidden = plan.left.length === 0;
    reconcile(left.lastChild, plan.left, (text) => text, (text) => element("li", {}, text));
  });
  const all = button("", () => {
    visibleSteps = Infinity;
    drawSteps();
  }, {class: "plain-button", hidden: true});
  return card(term("plan", "Current plan"), {class: "card half"}, element("div.bar", {}, summary, button("Plan again", () => task.now())), why, list, all, left);

  function drawSteps() {
    all.hidden = actions.length <= visibleSteps;
    setText(all, `Show all ${plural(actions.length, "step")}`);
    reconcile(list, actions.slice(0, visibleSteps), (action) => JSON.stringify(action), (action) => element("li", {}, ...describe(action), ...(effect(action, actions) ? [element("small", {}, effect(action, actions))] : []), ...reasons(action.reasons)));
  }
}

const OUTCOMES = ["", "dry", "running", "done", "partly", "refused", "failed", "nothing"];

function journalCard(scope) {
  const chosen = scope.parameters.get("id");
  const outcome = element("select", {"aria-label": "Outcome"}, ...OUTCOMES.map((each) => element("option", {value: each}, each || "All outcomes")));
  const list = element("ul.plain-list", {"data-testid": "decisions"});
  const none = element("p.soft", {hidden: true}, "No decisions.");
  const task = scope.every(10, async () => {
    const {decisions} = await scope.get("/v1/decisions", {limit: MAX_DECISIONS, outcome: outcome.value});
    none.hidden = decisions.length > 0;
    reconcile(list, decisions, (each) => each.id, (each) => element("li", {}, decisionDetails(each.id === chosen)), (item, each) => drawDecision(item.firstChild, each));
  });
  outcome.addEventListener("change", () => task.now());
  return card(term("decision", "Decisions"), {class: "card"}, element("div.bar", {}, element("span.soft", {}, "The most recent first."), outcome), none, list);
}

function decisionDetails(isOpen) {
  const details = element("details.decision", {open: isOpen}, element("summary", {}, element("b"), element("span"), element("span.soft")), element("div"));
  details.addEventListener("toggle", () => details.decision && drawBody(details));
  return details;
}

function drawDecision(details, decision) {
  const [title, badge, at] = details.firstChild.children;
  setText(title, decisionTitle(decision));
  setText(badge, decision.outcome);
  setAttribute(badge, "class", `badge ${decision.outcome}`);
  setText(at, `${moment(decision.at)}, ${ago(Date.now() / 1000 - decision.at)}`);
  const text = JSON.stringify(decision);
  if (details.text === text) return;
  Object.assign(details, {text, decision});
  drawBody(details);
}

/** Steps and reasons, only of decisions that are open. */
function drawBody(details) {
  if (!details.open) return;
  const decision = details.decision;
  const alerts = decision.alerts.map((alert) => `${alert.node}: ${alert.resource}`).join(", ");
  const notes = [
    saving(decision), alerts ? `Responds to bottlenecks: ${alerts}.` : "", decision.trouble ?? "",
    ...decision.verdicts.map(verdictText),
  ].filter(Boolean);
  details.lastChild.replaceChildren(
    ...notes.map((text) => element("p", {}, text)), ...reasons(decision.reasons),
    element("ol.steps-list", {}, ...decision.steps.map(stepItem)),
    ...(decision.left.length ? [element("h3", {}, "Why no other steps"), ...reasons(decision.left)] : []),
  );
}

/** What was measured some time after a decision. */
function verdictText(verdict) {
  const alerts = verdict.alerts.map((alert) => {
    const ended = known(alert.closed_seconds) ? `ended after ${duration(alert.closed_seconds)}${alert.is_open ? ", and another is open" : ""}` : "is still open";
    const alone = known(alert.alone_ratio) ? ` (${percent(alert.alone_ratio)} of those left alone do)` : "";
    return `${alert.resource} alert of ${alert.node} ${ended}${alone}, ${percent(alert.used_before)} → ${percent(alert.used_after)} used`;
  });
  const promise = known(verdict.promised_watts) ? `, promised ${watts(verdict.promised_watts)}` : "";
  const power = known(verdict.saved_watts) ? `saved ${watts(verdict.saved_watts)} ± ${watts(verdict.error_watts)}` : `saved power unknown: ${verdict.why_unknown}`;
  const short = known(verdict.short_seconds_before) && known(verdict.short_seconds_after) ? [`short for ${duration(verdict.short_seconds_before)} before, ${duration(verdict.short_seconds_after)} after`] : [];
  const goal = verdict.goal ? [`${verdict.goal.what} ${known(verdict.goal.value) ? verdict.goal.value.toPrecision(3) : "unknown"}, at most ${verdict.goal.most}`] : [];
  return `After ${duration(verdict.after_seconds)}: ${EFFECTS[verdict.effect]}. ${[...goal, ...alerts, `${power}${promise}`, ...short].join("; ")}.`;
}

/** What the decisions of the last week brought, the least useful policies first. */
function effectCard(scope) {
  const list = element("ul.plain-list", {"data-testid": "effects"});
  const none = element("p.soft", {}, "No decision was carried out in the last seven days.");
  scope.every(60, async () => {
    const {deciders} = await scope.get("/v1/decisions/effect");
    none.hidden = deciders.length > 0;
    const worst = [...deciders].sort((one, other) => other.caution - one.caution);
    reconcile(list, worst, (each) => each.policy, () => element("li", {}, element("b"), element("div"), element("div.soft")), (item, each) => {
      setText(item.children[0], `${each.policy}: ${plural(each.decisions, "decision")}, ${plural(each.moves, "move")}`);
      setText(item.children[1], brought(each));
      setText(item.children[2], each.why ? `Must promise ${each.caution.toFixed(1)} times the required gain: ${each.why}.` : "");
    });
  });
  return card(term("verdict", "What it brought, last 7 days"), {class: "card half"}, none, list);
}
