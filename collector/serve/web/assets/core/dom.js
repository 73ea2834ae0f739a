// Elements. Names come from untrusted containers: they are set as text, never as markup. The
// Content-Security-Policy requires trusted types and allows none, so that a browser refuses markup from text.

const SVG = "http://www.w3.org/2000/svg";
const MAX_TITLE = 400;

/** Make an element: `element("p.soft", {hidden: true}, "text", child, null)`. */
export function element(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  return fill(made, attributes, children);
}

/** Make an SVG element. */
export function shape(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const made = document.createElementNS(SVG, tag);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  return fill(made, attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/** Replace the text if it differs: unchanged text is neither drawn again nor read aloud. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set or remove an attribute if it differs. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/** A name from the cluster: isolated, as it may be right-to-left, and shortened by the style sheet. */
export function named(text, kind = "bdi.name") {
  return element(kind, {title: text.slice(0, MAX_TITLE)}, text);
}

/** Make the children of a parent match a list: keep, move, add or remove them by key, and update each. */
export function reconcile(parent, items, key, make, update = () => {}) {
  const kept = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = kept.get(name);
    if (child) kept.delete(name);
    else {
      child = make(item);
      child.dataset.key = name;
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of kept.values()) child.remove();
}

/** A link into the page. */
export function link(address, ...children) {
  return element("a", {href: address}, ...children);
}

export function button(text, onClick, attributes = {}) {
  return element("button", {type: "button", click: onClick, ...attributes}, text);
}

/** A section with a heading. */
export function card(title, attributes, ...children) {
  const heading = element("h2", {}, title);
  return element("section.card", attributes, heading, ...children);
}
