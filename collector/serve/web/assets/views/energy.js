// Energy: accounts by service, label, node, day or container over a period, with price and emissions; and as CSV.

import {button, card, element, link, named, reconcile, setAttribute, setText} from "../core/dom.js";
import {day, energy, percent, watts} from "../core/format.js";
import {address, remember} from "../core/router.js";
import {dayStart, emissionsOf, priceOf} from "./accounts.js";
import {DayBars} from "./days.js";

const DAY = 86_400;
const BLOCK = 100;
const MAX_ROWS = 1000;
const SPANS = {today: ["Today", 0], "7d": ["7 days", 6], "30d": ["30 days", 29], "90d": ["90 days", 89]};
const KINDS = {service: "Service", label: "Label", node: "Node", day: "Day", container: "Container"};
const LABELS = ["com.docker.compose.project", "com.docker.stack.namespace", "io.kubernetes.pod.namespace", "wattpack.app", "team"];

export function energyView(scope) {
  const state = {
    by: KINDS[scope.parameters.get("by")] ? scope.parameters.get("by") : "service",
    span: SPANS[scope.parameters.get("span")] ? scope.parameters.get("span") : "7d", label: scope.parameters.get("label") ?? "", rows: BLOCK,
  };
  const by = element("select", {"aria-label": "Group by", "data-testid": "energy-by"}, ...Object.entries(KINDS).map(([value, name]) => element("option", {value}, `By ${name.toLowerCase()}`)));
  by.value = state.by;
  const label = element("input", {"aria-label": "Label", placeholder: "label, such as com.docker.compose.project", list: "label-names", value: state.label, autocomplete: "off"});
  const names = element("datalist", {id: "label-names"}, ...LABELS.map((value) => element("option", {value})));
  const spans = element("div.choice", {role: "group", "aria-label": "Period"}, ...Object.entries(SPANS).map(([name, [text]]) => button(text, () => change({span: name}), {"data-span": name})));
  const csv = button("CSV", () => download(scope, state, status), {"data-testid": "energy-csv", title: "Download these accounts as CSV"});
  const status = element("p.soft", {role: "status"});
  const total = element("p.figure");
  const totalNote = element("p.soft");
  const days = new DayBars({id: "energy-chart"});
  const body = element("tbody", {"data-testid": "energy-rows"});
  const heads = element("tr", {}, ...["", "Energy", "Share", "Mean power", "Price", "CO₂"].map((text, place) => element(place ? "th.number" : "th", {scope: "col", "data-hide": [2, 3, 5].includes(place) ? "phone" : null}, text)));
  const more = button("Show more", () => change({rows: state.rows + BLOCK}), {hidden: true});
  const none = element("p.soft", {hidden: true});
  scope.root.append(
    element("div.head", {}, element("h1", {}, "Energy"), spans),
    element("div.grid", {}, card("Total", {class: "card third"}, total, totalNote), card("Energy by day (UTC)", {class: "card two-thirds"}, days.root),
      card("Accounts", {class: "card"}, element("div.tools.flat", {}, by, label, names, csv), status, none, element("div.scroll.tall", {tabindex: "0", role: "group", "aria-label": "Accounts"}, element("table.plain", {}, element("thead", {}, heads), body)), more)),
  );
  const accounts = scope.every(60, async () => {
    const requested = JSON.stringify(state);
    none.hidden = true;
    if (state.by === "label" && !state.label) {
      none.hidden = false;
      setText(none, "Enter the name of a label to group by.");
      reconcile(body, [], () => "", () => null);
      return;
    }
    const {accounts: found, next, ...rest} = await read(scope, state, state.rows);
    if (requested !== JSON.stringify(state)) return;
    more.hidden = !next;
    none.hidden = found.length > 0;
    setText(none, "No energy accounts in this period.");
    setText(status, rest.tariff_problem ?? "");
    drawRows(body, heads, found, rest, state);
  });
  const totals = scope.every(120, async () => {
    const requested = state.span;
    const {start, end} = period(state);
    const {accounts: found, ...prices} = await scope.get("/v1/energy", {by: "day", start: Math.min(start, dayStart(end) - 29 * DAY), end, limit: 120});
    if (requested !== state.span) return;
    const within = found.filter((each) => Date.parse(each.key) / 1000 >= start);
    const sum = (field) => within.reduce((all, each) => all + (each[field] ?? 0), 0);
    setText(total, energy(sum("joules")));
    const parts = `idle ${energy(sum("idle_joules"))}, system ${energy(sum("system_joules"))}, containers ${energy(sum("containers_joules"))}`;
    setText(totalNote, [parts, priceOf(sum("joules"), prices), emissionsOf(sum("joules"), prices)].filter(Boolean).join(" · "));
    days.update(within.map((each) => ({name: day(Date.parse(each.key) / 1000), parts: [each.idle_joules ?? 0, each.system_joules ?? 0, each.containers_joules ?? 0]})));
  });
  by.addEventListener("change", () => change({by: by.value, rows: BLOCK}));
  label.addEventListener("change", () => change({label: label.value.trim(), rows: BLOCK}));
  change({});

  function change(changes) {
    Object.assign(state, changes);
    remember({by: state.by, span: state.span, label: state.label});
    label.hidden = state.by !== "label";
    for (const each of spans.children) setAttribute(each, "aria-pressed", String(each.dataset.span === state.span));
    accounts.now();
    totals.now();
  }
}

function period({span}) {
  const end = Math.floor(Date.now() / 1000);
  return {start: dayStart(end) - SPANS[span][1] * DAY, end};
}

const grouping = ({by, label}) => by === "label" ? `label:${label}` : by;

const read = (scope, state, limit) => scope.get("/v1/energy", {...period(state), by: grouping(state), limit: Math.min(MAX_ROWS, limit)});

function nameOf(account, by) {
  if (by === "service") return account.key === null ? "without a service" : link(address("services", account.key), named(account.key));
  if (by === "node") return link(address("nodes", account.key), named(account.key));
  if (by === "container") return link(address("containers", account.key), named(account.name ?? account.key.slice(0, 12)));
  return account.key === null ? "without this label" : named(account.key);
}

function drawRows(body, heads, accounts, {start, end, ...prices}, {by}) {
  const all = accounts.reduce((sum, each) => sum + each.joules, 0) || 1;
  setText(heads.firstChild, KINDS[by]);
  heads.children[4].hidden = !priceOf(1, prices);
  heads.children[5].hidden = !emissionsOf(1, prices);
  reconcile(body, accounts, (each) => `${by}/${each.node ?? ""}/${each.key}`, (each) => element("tr", {}, element("th", {scope: "row"}, nameOf(each, by)), ...Array.from({length: 5}, (_, place) => element("td.number", {"data-hide": [1, 2, 4].includes(place) ? "phone" : null}))), (row, each) => {
    const seconds = by === "day" ? DAY : end - start;
    const texts = [energy(each.joules), percent(each.joules / all), watts(each.joules / seconds), priceOf(each.joules, prices), emissionsOf(each.joules, prices)];
    texts.forEach((text, place) => setText(row.children[place + 1], text));
    row.children[4].hidden = !priceOf(1, prices);
    row.children[5].hidden = !emissionsOf(1, prices);
  });
}

/** Download all accounts of the period. */
async function download(scope, state, status) {
  try {
    const {start, end} = period(state);
    const text = await scope.getText("/v1/energy", {start, end, by: grouping(state), format: "csv"});
    const url = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
    element("a", {href: url, download: `energy-by-${state.by}-${new Date(start * 1000).toISOString().slice(0, 10)}.csv`}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    setText(status, "All accounts of the period are downloaded.");
  } catch (error) {
    setText(status, error.message);
  }
}
