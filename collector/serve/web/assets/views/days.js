// Energy by day as stacked bars: idle, system, containers.

import {element, reconcile, setAttribute, setText, shape} from "../core/dom.js";
import {energy} from "../core/format.js";
import {valueTicks} from "../core/scales.js";

const HEIGHT = 190;
const LEFT = 64;
const BOTTOM = 22;
/** Half of a label. */
const RIGHT = 24;
const TOP = 8;
const KINDS = ["idle", "system", "containers"];
const LABEL_PX = 60;
const WIDEST_PX = 60;

export class DayBars {
  constructor({id}) {
    this.days = [];
    this.grid = shape("g.grid", {"aria-hidden": "true"});
    this.bars = shape("g");
    this.svg = shape("svg", {height: HEIGHT, role: "img", "aria-label": "Energy by day"}, this.grid, this.bars);
    const legend = element("ul.legend", {}, ...KINDS.map((kind) => element("li", {}, element(`span.key.c-${kind}`), kind)));
    this.root = element("figure.chart", {"data-testid": id}, legend, element("div.plot", {}, this.svg));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /** `days`: `{name, parts}` with the joules of each kind. */
  update(days) {
    this.days = days;
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth - LEFT - RIGHT;
    if (width <= 0) return;
    const total = (each) => each.parts.reduce((sum, part) => sum + part, 0);
    const ticks = valueTicks(Math.max(0, ...this.days.map(total)) / 3.6e6, 3).map((value) => value * 3.6e6);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / ticks.at(-1));
    const slot = Math.min(WIDEST_PX, width / Math.max(1, this.days.length));
    const every = Math.ceil(LABEL_PX / slot);
    reconcile(this.grid, ticks, (value) => value, () => shape("g", {}, shape("line", {x1: LEFT}), shape("text", {x: LEFT - 6, "text-anchor": "end"})), (group, value) => {
      setAttribute(group.firstChild, "x2", LEFT + width);
      setAttribute(group.firstChild, "y1", y(value).toFixed(1));
      setAttribute(group.firstChild, "y2", y(value).toFixed(1));
      setAttribute(group.lastChild, "y", (y(value) + 4).toFixed(1));
      setText(group.lastChild, value ? energy(value) : "0");
    });
    const last = this.days.length - 1;
    reconcile(this.bars, this.days.map((each, place) => ({...each, place})), (each) => each.name, () => shape("g", {}, shape("title"), ...KINDS.map((kind) => shape(`rect.area.c-${kind}`)), shape("text.tick", {"text-anchor": "middle", y: HEIGHT - 5})), (group, each) => {
      const [title, ...rest] = group.children;
      setText(title, `${each.name}: ${energy(total(each))}`);
      let below = 0;
      each.parts.forEach((part, kind) => {
        setAttribute(rest[kind], "x", (LEFT + each.place * slot + slot * 0.12).toFixed(1));
        setAttribute(rest[kind], "width", (slot * 0.76).toFixed(1));
        setAttribute(rest[kind], "y", y(below + part).toFixed(1));
        setAttribute(rest[kind], "height", Math.max(0, y(below) - y(below + part)).toFixed(1));
        below += part;
      });
      setAttribute(rest[3], "x", (LEFT + (each.place + 0.5) * slot).toFixed(1));
      setText(rest[3], (last - each.place) % every === 0 ? each.name : "");
    });
    setAttribute(this.svg, "aria-label", `Energy by day: ${this.days.map((each) => `${each.name} ${energy(total(each))}`).join(", ") || "no data"}`);
  }
}
