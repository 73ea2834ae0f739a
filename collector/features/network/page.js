// A heat map of the round-trip times between nodes. Nodes are sorted by cluster, so near nodes form blocks.

import {addCard} from "../core/cards.js";
import {card, element, setText, shape} from "../core/dom.js";
import {known, milliseconds, plural} from "../core/format.js";
import {term} from "../core/glossary.js";

const WIDEST_PX = 18;
const NARROWEST_PX = 8;
const LABEL_PX = 130;
const MAX_NODES = 64;
const MAX_LETTERS = 18;
const LEVELS = 10;

addCard("nodes", networkCard);

/** Hidden while the mesh is off. */
function networkCard(scope) {
  const map = element("div.scroll", {"data-testid": "network-heat", tabindex: "0", role: "group", "aria-label": "Round-trip times"});
  const note = element("p.soft");
  const heading = element("span");
  const root = card(heading, {hidden: true}, map, note);
  scope.every(60, async () => {
    const network = await scope.get("/v1/network", {limit: MAX_NODES});
    root.hidden = !network.enabled || network.nodes.length < 2;
    if (root.hidden) return;
    const clusters = new Set(network.nodes.map((node) => node.cluster)).size;
    heading.replaceChildren(term("mesh", "Network"), ` (${plural(clusters, "cluster")} of near nodes)`);
    const times = network.p50_seconds.flat().filter((value) => known(value) && value > 0);
    const range = times.length ? `${milliseconds(Math.min(...times))} (faint) to ${milliseconds(Math.max(...times))} (red); ` : "";
    setText(note, `Median round-trip times: ${range}dashed cells are estimated, grey ones unknown.${network.total > MAX_NODES ? ` The first ${MAX_NODES} of ${network.total} nodes.` : ""}`);
    map.replaceChildren(draw(network, map.clientWidth));
  });
  return root;
}

function draw({nodes, p50_seconds: times, kinds}, width) {
  const cell = Math.max(NARROWEST_PX, Math.min(WIDEST_PX, (width - LABEL_PX) / nodes.length));
  const logs = times.flat().filter((value) => known(value) && value > 0).map(Math.log);
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const size = Math.min(11, cell);
  const side = nodes.length * cell;
  const svg = shape("svg.mesh", {width: LABEL_PX + side, height: side, role: "img", "aria-label": "Round-trip times between nodes"});
  nodes.forEach((node, row) => {
    const name = node.name.length > MAX_LETTERS ? `${node.name.slice(0, MAX_LETTERS - 1)}…` : node.name;
    const label = shape("text", {x: 0, y: ((row + 0.5) * cell + 0.35 * size).toFixed(1)}, name);
    label.style.fontSize = `${size}px`;
    svg.append(label);
    nodes.forEach((peer, column) => {
      if (row === column) return;
      const value = times[row][column];
      // On a scale of ratios, from near to far.
      const far = high > low && value > 0 ? (Math.log(value) - low) / (high - low) : 0;
      const level = known(value) ? Math.min(LEVELS - 1, Math.floor(far * LEVELS)) : "unknown";
      const text = known(value) ? `${milliseconds(value)}, ${kinds[row][column]}` : "unknown";
      svg.append(shape(`rect.heat-${level}.${kinds[row][column]}`, {x: (LABEL_PX + column * cell).toFixed(1), y: (row * cell).toFixed(1), width: (cell - 1).toFixed(1), height: (cell - 1).toFixed(1)},
        shape("title", {}, `${node.name} – ${peer.name}: ${text}`)));
    });
  });
  return svg;
}
