// The frame of the page: navigation, the state of the connection, colours, keys. Views are in `../views`.

import {element, setAttribute, setText} from "./dom.js";
import {timeWithSeconds} from "./format.js";
import {loadGlossary, watchTerms} from "./glossary.js";
import {connection, Scope, stream} from "./live.js";
import {current} from "./router.js";
import {containerView, containersView} from "../views/containers.js";
import {decisionsView} from "../views/decisions.js";
import {energyView} from "../views/energy.js";
import {nodeView, nodesView} from "../views/nodes.js";
import {overviewView} from "../views/overview.js";
import {serviceView, servicesView} from "../views/services.js";

/** Name and title of a view, the view of the list, and the view of one entry. */
const VIEWS = [
  ["", "Overview", overviewView, null],
  ["nodes", "Nodes", nodesView, nodeView],
  ["services", "Services", servicesView, serviceView],
  ["containers", "Containers", containersView, containerView],
  ["decisions", "Decisions", decisionsView, null],
  ["energy", "Energy", energyView, null],
];
const THEME = "wattpack-theme";
const THEMES = ["auto", "light", "dark"];
const THEME_NAMES = {auto: "same as system", light: "light", dark: "dark"};
const MAX_TITLE = 80;

const byId = (id) => document.getElementById(id);
let scope = null;

function show() {
  // A link to an element, such as the one that skips the header, is not a view.
  if (location.hash && !location.hash.startsWith("#/")) return;
  scope?.close();
  const {parts, query} = current();
  const [name, title, list, one] = VIEWS.find(([each]) => each === (parts[0] ?? "")) ?? VIEWS[0];
  const root = element("div.view");
  scope = new Scope(root, parts, query);
  byId("main").replaceChildren(root);
  delete document.body.dataset.ready;
  for (const link of byId("nav").children) {
    const isCurrent = link.dataset.view === name;
    setAttribute(link, "aria-current", isCurrent ? "page" : null);
    // On a phone, the names of all views do not fit.
    if (isCurrent) byId("nav").scrollLeft = link.offsetLeft - byId("nav").offsetLeft - (byId("nav").clientWidth - link.offsetWidth) / 2;
  }
  const isOne = one && parts.length > 1;
  document.title = `${isOne ? `${parts[1].slice(0, MAX_TITLE)} – ` : ""}${title} – Wattpack`;
  (isOne ? one : list)(scope);
}

function navigate() {
  show();
  scrollTo(0, 0);
  byId("main").focus({preventScroll: true});
}

function drawConnection({detail: {error, answeredAt}}) {
  const offline = byId("offline");
  const pulse = byId("pulse");
  setAttribute(pulse, "data-state", error ? "offline" : "live");
  offline.hidden = !error;
  if (!error) {
    setText(pulse, timeWithSeconds(answeredAt / 1000));
    if (!document.body.dataset.ready) document.body.dataset.ready = current().parts[0] ?? "overview";
    return;
  }
  setText(pulse, "no response");
  const unreachable = error instanceof TypeError || error.name === "TimeoutError";
  const since = answeredAt ? `This page shows data from ${timeWithSeconds(answeredAt / 1000)}. ` : "";
  setText(offline, unreachable ? `The collector does not respond. ${since}Retrying.` : `${sentence(error.message)} ${since}Retrying.`);
}

const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

function applyTheme(theme) {
  setAttribute(document.documentElement, "data-theme", theme === "auto" ? null : theme);
  setAttribute(byId("theme"), "aria-label", `Colours: ${THEME_NAMES[theme]}`);
  setAttribute(byId("theme"), "title", `Colours: ${THEME_NAMES[theme]}`);
}

function startTheme() {
  let theme = "auto";
  try {
    theme = localStorage.getItem(THEME) ?? theme;
  } catch {
    // Storage may be blocked: the choice then lasts as long as the page.
  }
  if (!THEMES.includes(theme)) theme = "auto";
  applyTheme(theme);
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    applyTheme(theme);
    try {
      localStorage.setItem(THEME, theme);
    } catch {
      // As above.
    }
  });
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
    const search = document.querySelector("[data-search]");
    if (event.key === "/" && !isTyping && search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
    if (event.key === "Escape" && event.target === search && search) {
      search.value = "";
      search.dispatchEvent(new Event("input"));
      search.blur();
    }
  });
}

byId("nav").append(...VIEWS.map(([name, title]) => element("a", {href: `#/${name}`, "data-view": name, "data-testid": `nav-${name || "overview"}`}, title)));
startTheme();
startKeys();
watchTerms();
loadGlossary().catch(() => {});
connection.addEventListener("change", drawConnection);
addEventListener("hashchange", navigate);
stream.start();
show();
