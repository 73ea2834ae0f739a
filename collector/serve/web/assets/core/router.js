// The address of a view is in the fragment, such as `#/nodes/web1?range=24h`: links work, the back button works,
// and the server never sees it.

/** The parts of the current address. */
export function current() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return {parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query ?? "")};
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address: `address("nodes", name)`. */
export const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** Change the query of the current address, without a new history entry or a new view. */
export function remember(changes) {
  const {query} = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const [path] = location.hash.split("?", 1);
  const text = query.toString();
  history.replaceState(null, "", `${path || "#/"}${text ? `?${text}` : ""}`);
}
