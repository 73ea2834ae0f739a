// Promises of availability of services.

import {addCard} from "../core/cards.js";
import {card, element, named, reconcile, setText} from "../core/dom.js";
import {duration, known, share} from "../core/format.js";
import {term} from "../core/glossary.js";

addCard("services", promisesCard);

/** A table of promises of availability; hidden without promises. */
function promisesCard(scope, filter) {
  const body = element("tbody");
  const heads = ["Service", "Class", "Promised", "Delivered", "Running", "State", "Can wait", "Penalty"];
  const table = element("table.plain", {"data-testid": "promises"}, element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {scope: "col"}, head)))), body);
  const root = card(term("promise", "Promises of availability"), {hidden: true}, element("div.scroll", {tabindex: "0", role: "group", "aria-label": "Promises"}, table));
  scope.every(30, async () => {
    const {slo} = await scope.get("/v1/slo", {limit: 100, ...filter});
    root.hidden = slo.length === 0;
    reconcile(body, slo, (each) => each.service, () => element("tr", {}, ...heads.map((_, place) => element(place ? "td" : "th", place ? {} : {scope: "row"}))), (row, each) => {
      const texts = [
        each.service, each.slo_class, share(each.target_ratio), share(each.availability_ratio), `${each.running_instances} of ${each.instances}`, stateOf(each),
        each.state === "broken" ? "–" : known(each.time_to_violation_seconds) ? duration(Math.max(0, each.time_to_violation_seconds)) : "no limit",
        each.penalty_seconds > 0 ? duration(each.penalty_seconds) : "–",
      ];
      texts.forEach((text, place) => {
        if (place === 0) { if (!row.children[0].firstChild) row.children[0].append(named(text)); } else setText(row.children[place], text);
      });
    });
  });
  return root;
}

const stateOf = (each) => ({kept: "kept", broken: `broken, ${duration(each.deficit_seconds)} behind`, "at risk": `breaks in ${duration(each.breaks_in_seconds ?? 0)}`})[each.state];
