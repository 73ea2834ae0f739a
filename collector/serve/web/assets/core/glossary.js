// Tooltips with the definitions of docs/glossary.md, on every element with `data-term`: by mouse, focus or touch.

import {element} from "./dom.js";

const ID = "tooltip";
const GAP_PX = 6;
let definitions = {};

export async function loadGlossary() {
  const response = await fetch(new URL("glossary.json", import.meta.url).href.replace(/\/\/[^/@]*@/, "//"));
  definitions = await response.json();
}

/** A word with its definition. */
export function term(word, text = word) {
  return element("span.term", {"data-term": word, tabindex: "0"}, text);
}

const tip = element("div", {id: ID, role: "tooltip", hidden: true});

function show(target) {
  const found = definitions[target.dataset.term];
  if (!found) return;
  const title = element("strong", {}, target.dataset.term);
  tip.replaceChildren(title, ` ${found}`);
  tip.hidden = false;
  const at = target.getBoundingClientRect();
  const left = Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - GAP_PX);
  const below = at.bottom + GAP_PX + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(GAP_PX, left) + scrollX}px`;
  tip.style.top = `${(below ? at.bottom + GAP_PX : at.top - tip.offsetHeight - GAP_PX) + scrollY}px`;
  target.setAttribute("aria-describedby", ID);
}

function hide() {
  tip.hidden = true;
  for (const each of document.querySelectorAll(`[aria-describedby=${ID}]`)) each.removeAttribute("aria-describedby");
}

/** Show definitions from now on. */
export function watchTerms() {
  document.body.append(tip);
  const inside = (event) => event.target instanceof Element ? event.target.closest("[data-term]") : null;
  for (const kind of ["mouseover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const target = inside(event);
      if (target) show(target);
    });
  }
  document.addEventListener("mouseout", (event) => { if (inside(event)) hide(); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}
