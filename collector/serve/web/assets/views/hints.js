// Placement hints: a form, and the ranked nodes.

import {card, element, link} from "../core/dom.js";
import {amount, FIELDS, known, percent, plural, RESOURCES, RESOURCE_NAMES, UNKNOWN, watts} from "../core/format.js";
import {term} from "../core/glossary.js";
import {address} from "../core/router.js";

const MEBIBYTE = 1024 ** 2;

/** Ranked nodes as a table; `own` is the current node. */
export function rankTable(nodes, own = null) {
  const heads = ["Node", "Score", "Added power", "Confidence", "Predicted usage", "Reasons"];
  const rows = nodes.map((each) => {
    const ratios = RESOURCES.filter((resource) => known(each.predicted_ratio[`${resource}_ratio`])).map((resource) => `${RESOURCE_NAMES[resource]} ${percent(each.predicted_ratio[`${resource}_ratio`])}`);
    return element("tr", {}, element("th", {scope: "row"}, link(address("nodes", each.node), element("bdi", {}, each.node)), each.node === own ? " (here)" : ""),
      element("td.number", {}, known(each.score) ? each.score.toPrecision(3) : UNKNOWN),
      element("td.number", {title: each.watts_unknown}, known(each.added_watts) ? `${watts(each.added_watts)} ± ${watts(each.error_watts)}` : UNKNOWN),
      element("td.number", {}, known(each.confidence) ? percent(each.confidence) : UNKNOWN),
      element("td", {}, ratios.join(", ")), element("td.reasons", {}, each.reasons.join("; ")));
  });
  return element("div.scroll", {tabindex: "0", role: "group", "aria-label": "Ranked nodes"}, element("table.plain", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {scope: "col"}, head)))), element("tbody", {}, ...rows)));
}

export function hintCard(scope) {
  const input = (name, attributes = {}) => element("input", {name, autocomplete: "off", ...attributes});
  const number = (name, placeholder) => input(name, {type: "number", min: "0", step: "any", placeholder});
  const services = element("datalist", {id: "known-services"});
  const policy = element("select", {name: "policy"}, element("option", {value: ""}, "as configured"));
  const field = (text, control, extra = "label") => element(extra, {}, text, control);
  const answer = element("div.answer", {"data-testid": "hint-answer", "aria-live": "polite"});
  const form = element("form.form", {"data-testid": "hint-form"}, services,
    field("Service", input("service", {list: "known-services"})), field("Image", input("image")),
    field("CPU, cores", number("cpu_cores", "measured")), field("Memory, MiB", number("memory_mebibytes", "measured")),
    field(term("class (SLA class)", "Class"), element("select", {name: "class"}, element("option", {value: ""}, "by labels"), ...["1", "2", "3", "4"].map((each) => element("option", {value: each}, each)))),
    field("Constraints", input("constraints", {placeholder: "zone==a, ssd==true"})), field(term("policy", "Policy"), policy),
    element("label.check.wide", {}, element("input", {type: "checkbox", name: "spread"}), "Spread over failure domains"), element("div.wide.row", {}, element("button.main", {}, "Rank nodes")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      answer.replaceChildren(...draw(await scope.post("/v1/hints/placement", question(new FormData(form)))));
    } catch (error) {
      answer.replaceChildren(element("p", {role: "alert"}, error.message));
    }
  });
  scope.every(600, async () => {
    const [{services: found}, {policies, default: chosen}] = await Promise.all([scope.get("/v1/services", {limit: 200, order: "watts", reverse: true}), scope.get("/v1/policies")]);
    services.replaceChildren(...found.map((each) => element("option", {value: each.name})));
    const value = policy.value;
    policy.replaceChildren(element("option", {value: ""}, `as configured (${chosen})`), ...policies.filter((each) => each.places).map((each) => element("option", {value: each.name}, each.name)));
    policy.value = value;
  });
  return card(term("hint", "Placement hint"), {class: "card"}, element("p.soft", {}, "Ranks nodes for a container, and changes nothing. Leave a field empty to use the measured need of the service."), form, answer);
}

function question(data) {
  const demand = {};
  if (data.get("cpu_cores")) demand.cpu_cores = Number(data.get("cpu_cores"));
  if (data.get("memory_mebibytes")) demand.memory_bytes = Math.round(Number(data.get("memory_mebibytes")) * MEBIBYTE);
  const constraints = data.get("constraints").split(",").map((each) => each.trim()).filter(Boolean);
  const texts = Object.fromEntries(["service", "image", "policy"].map((name) => [name, data.get(name).trim()]).filter(([, text]) => text));
  return {...texts, demand, constraints, spread: data.has("spread"), ...(data.get("class") ? {class: Number(data.get("class"))} : {})};
}

function draw(hint) {
  const need = RESOURCES.filter((each) => known(hint.assumed.demand[FIELDS[each]])).map((each) => `${RESOURCE_NAMES[each]} ${amount(each, hint.assumed.demand[FIELDS[each]])}`).join(", ");
  const parts = [element("p", {}, `Assumed need: ${need || "nothing"} (${hint.assumed.explanation}). It fits on ${plural(hint.fitting, "node")}${hint.short ? `, and would be short on ${hint.short}` : ""}.`)];
  if (hint.nodes.length) parts.push(rankTable(hint.nodes), element("p.soft", {}, `${hint.policy}: ${hint.score_is}`));
  else parts.push(element("p", {role: "alert"}, "It fits on no node."));
  if (hint.refused_for.length) parts.push(element("p.soft", {}, `Rejected: ${hint.refused_for.map((each) => `${plural(each.nodes, "node")}, ${each.why}`).join("; ")}`));
  return [...parts, ...hint.notes.map((note) => element("p.soft", {}, note))];
}
