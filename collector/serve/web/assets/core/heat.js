// Heat maps. Cells of the same colour are one path, so that a thousand nodes need a few dozen elements. The cell under
// the pointer is computed from its position.

import {element, reconcile, setAttribute, setText, shape} from "./dom.js";
import {known, plural} from "./format.js";

const LEVELS = 10;
const LABEL_PX = 74;
const ROW_PX = 22;
const GAP_PX = 1;
const SMALLEST_PX = 6;
const LARGEST_PX = 56;

/** Rows of resources, columns of nodes; wide clusters wrap into several bands. */
export class HeatMap {
  constructor({title, rows, onOpen, id = null}) {
    Object.assign(this, {title, rows, onOpen, columns: []});
    this.cells = shape("g");
    this.labels = shape("g.labels");
    this.svg = shape("svg", {role: "img", "aria-label": title}, this.cells, this.labels);
    this.readout = element("p.soft.heat-note", {role: "status"}, "");
    this.root = element("div.heat", {"data-testid": id}, this.svg, legend(), this.readout);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("click", (event) => {
      const found = this.at(event);
      if (found) this.onOpen(found.column);
    });
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  /** `columns`: `{name, values: {row: ratio or null}, isDown, texts: {row: text}}`. */
  update(columns) {
    this.columns = columns;
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth - LABEL_PX;
    if (width < LARGEST_PX || !this.columns.length) return;
    this.cell = Math.max(SMALLEST_PX, Math.min(LARGEST_PX, Math.floor(width / this.columns.length)));
    this.perBand = Math.max(1, Math.floor(width / this.cell));
    const bands = Math.ceil(this.columns.length / this.perBand);
    this.band = this.rows.length * ROW_PX + 8;
    const levels = new Map();
    this.columns.forEach((column, place) => {
      const x = LABEL_PX + (place % this.perBand) * this.cell;
      const y = Math.floor(place / this.perBand) * this.band;
      this.rows.forEach((row, line) => {
        const level = levelOf(column, row.key);
        if (!levels.has(level)) levels.set(level, []);
        levels.get(level).push(`M${x},${y + line * ROW_PX}h${this.cell - GAP_PX}v${ROW_PX - GAP_PX}h${GAP_PX - this.cell}z`);
      });
    });
    setAttribute(this.svg, "width", LABEL_PX + Math.min(this.columns.length, this.perBand) * this.cell);
    setAttribute(this.svg, "height", bands * this.band);
    reconcile(this.cells, [...levels.keys()], (level) => level, (level) => shape(`path.heat-${level}`), (path, level) => setAttribute(path, "d", levels.get(level).join("")));
    const labels = Array.from({length: bands * this.rows.length}, (_, place) => place);
    reconcile(this.labels, labels, (place) => place, () => shape("text", {x: 0}), (text, place) => {
      setText(text, this.rows[place % this.rows.length].name);
      setAttribute(text, "y", Math.floor(place / this.rows.length) * this.band + (place % this.rows.length) * ROW_PX + 15);
    });
    setAttribute(this.svg, "aria-label", `${this.title}: ${plural(this.columns.length, "node")}; the table below has the values`);
  }

  at(event) {
    const place = Math.floor((event.offsetX - LABEL_PX) / this.cell);
    const band = Math.floor(event.offsetY / this.band);
    const row = this.rows[Math.floor((event.offsetY - band * this.band) / ROW_PX)];
    const column = this.columns[band * this.perBand + place];
    return place >= 0 && place < this.perBand && row && column ? {column, row} : null;
  }

  point(event) {
    const found = this.at(event);
    this.svg.classList.toggle("pointing", Boolean(found));
    if (!found) return;
    const {column, row} = found;
    setText(this.readout, `${column.name}${column.isDown ? " (down)" : ""}: ${row.name} ${column.texts[row.key]}`);
  }
}

function levelOf(column, row) {
  if (column.isDown) return "down";
  const value = column.values[row];
  return known(value) ? Math.max(0, Math.min(LEVELS - 1, Math.floor(value * LEVELS))) : "unknown";
}

function legend() {
  const keys = Array.from({length: LEVELS}, (_, level) => element(`span.heat-${level}`));
  return element("p.soft.heat-legend", {"aria-hidden": "true"}, "0%", element("span.steps", {}, ...keys), "100%",
    element("span.heat-unknown"), "unknown", element("span.heat-down"), "down");
}
