// Lines and areas over time, as SVG. A chart is made once; an update changes its paths. A sentence describes it for
// screen readers, and a table has its values.

import {button, element, reconcile, setAttribute, setText, shape} from "./dom.js";
import {day, known, moment, time} from "./format.js";
import {timeTicks, valueTicks} from "./scales.js";

const LEFT = 68;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 24;
const LABEL_PX = 90;
const MAX_ROWS = 300;
const DOT_PX = 1.5;
/** A line breaks where this many steps have no value. */
const BREAK_STEPS = 2.5;
/** A constant is drawn up to this many times the highest value. */
const FAR = 5;

/** Colours are classes of the style sheet: `kind` of a series is the end of `c-KIND`. */
export class TimeChart {
  /** `stacked` stacks the series, the first one at the bottom; `base` is 1024 for bytes. */
  constructor({title, format, height = 200, stacked = false, base = 10, id = null}) {
    Object.assign(this, {title, format, height, stacked, base, data: null, selected: null});
    this.grid = shape("g.grid", {"aria-hidden": "true"});
    this.paths = shape("g.paths");
    this.marks = shape("g.marks");
    this.cursor = shape("line.cursor", {y1: TOP, y2: height - BOTTOM, visibility: "hidden"});
    this.svg = shape("svg", {height, role: "img", tabindex: "0", "aria-label": title}, this.grid, this.paths, this.marks, this.cursor);
    this.legend = element("ul.legend");
    this.readout = element("div.readout", {hidden: true, "aria-hidden": "true"});
    this.note = element("p.soft", {hidden: true}, "No data in this period.");
    this.table = element("div.scroll", {tabindex: "0", role: "group", "aria-label": `${title}, values`});
    this.details = element("details.values", {toggle: () => this.fillTable()}, element("summary", {}, "Values as a table"), this.table);
    this.root = element("figure.chart", {"data-testid": id}, this.legend, element("div.plot", {}, this.svg, this.readout), this.note, this.details);
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.select(null));
    this.svg.addEventListener("blur", () => this.select(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /**
   * Show data: `times` with the `values` of each series (null if unknown), which `isFaint` if it is not in the legend;
   * `band` with `low` and `high`; `lines`, each a constant; `start`, `end` and `step` in seconds.
   */
  update(data) {
    this.data = data;
    this.draw();
    if (this.details.open) this.fillTable();
  }

  get isEmpty() {
    return !this.data || !this.data.series.some((each) => each.values.some(known));
  }

  draw() {
    this.width = this.svg.clientWidth;
    this.note.hidden = !this.data || !this.isEmpty;
    this.svg.classList.toggle("empty", this.isEmpty);
    if (!this.data || this.width < LEFT + RIGHT) return;
    const {times, series, band, lines = [], start, end} = this.data;
    const tops = this.stacked ? stack(series) : series.map((each) => each.values);
    const top = [...tops.flat(), ...(band?.high ?? [])].filter(known).reduce((a, b) => Math.max(a, b), 0);
    // A constant far above all values would flatten them: it is in the legend only.
    const drawn = lines.filter((each) => known(each.value) && (!top || each.value <= FAR * top));
    const ticks = valueTicks(Math.max(top, ...drawn.map((each) => each.value)), 4, this.base);
    const highest = ticks.at(-1);
    // The first step may begin before the period.
    this.x = (at) => LEFT + (this.width - LEFT - RIGHT) * Math.max(0, at - start) / (end - start);
    this.y = (value) => TOP + (this.height - TOP - BOTTOM) * (1 - value / highest);
    this.drawGrid(ticks, timeTicks(start, end, Math.max(2, (this.width - LEFT) / LABEL_PX)));
    const paths = series.map((each, place) => ({
      kind: each.kind, name: each.name, isFaint: each.isFaint,
      d: this.stacked ? this.area(times, place ? tops[place - 1] : null, tops[place]) : this.line(times, tops[place]),
    }));
    // The first is on top.
    paths.reverse();
    if (band) paths.push({kind: "band", name: "band", d: this.area(times, band.low, band.high)});
    reconcile(this.paths, paths, (each) => each.name, (each) => shape(`path.c-${each.kind}${this.stacked || each.kind === "band" ? ".area" : ".line"}${each.isFaint ? ".faint" : ""}`),
      (path, each) => setAttribute(path, "d", each.d));
    reconcile(this.marks, drawn, (each) => each.name, (each) => shape(`line.c-${each.kind}.constant`), (line, each) => {
      setAttribute(line, "x1", LEFT);
      setAttribute(line, "x2", this.width - RIGHT);
      setAttribute(line, "y1", this.y(each.value).toFixed(1));
      setAttribute(line, "y2", this.y(each.value).toFixed(1));
    });
    this.drawLegend();
    setAttribute(this.svg, "aria-label", this.sentence(tops));
    if (this.selected !== null) this.select(Math.min(this.selected, times.length - 1));
  }

  drawGrid(values, times) {
    const rows = [
      ...values.map((value) => ({key: `v${value}`, y: this.y(value), text: round(this.format(value))})),
      ...times.map(({at, isDay}) => ({key: `t${at}`, x: this.x(at), text: isDay ? day(at) : time(at)})),
    ];
    reconcile(this.grid, rows, (row) => row.key, (row) => shape("g", {}, ...(row.y === undefined ? [] : [shape("line")]), shape("text")), (group, row) => {
      const text = group.lastChild;
      setText(text, row.text);
      if (row.y === undefined) {
        setAttribute(text, "x", row.x.toFixed(1));
        setAttribute(text, "y", this.height - 6);
        setAttribute(text, "text-anchor", "middle");
        return;
      }
      setAttribute(group.firstChild, "x1", LEFT);
      setAttribute(group.firstChild, "x2", this.width - RIGHT);
      setAttribute(group.firstChild, "y1", row.y.toFixed(1));
      setAttribute(group.firstChild, "y2", row.y.toFixed(1));
      setAttribute(text, "x", LEFT - 6);
      setAttribute(text, "y", (row.y + 4).toFixed(1));
      setAttribute(text, "text-anchor", "end");
    });
  }

  drawLegend() {
    const {series, band, lines = []} = this.data;
    const entries = [...series.filter((each) => !each.isFaint), ...(band ? [{name: band.name, kind: "band"}] : []), ...lines.filter((each) => known(each.value))];
    this.legend.hidden = entries.length < 2;
    reconcile(this.legend, entries, (each) => each.name, (each) => element("li", {}, element(`span.key.c-${each.kind}`), element("span")), (item, each) => {
      setText(item.lastChild, each.value === undefined ? each.name : `${each.name} ${this.format(each.value)}`);
    });
  }

  /** Runs of known values, broken where steps are missing. */
  runs(times, isKnown) {
    const runs = [];
    let run = [];
    times.forEach((at, place) => {
      const follows = run.length && at - times[run.at(-1)] <= BREAK_STEPS * this.data.step;
      if (!isKnown(place) || (run.length && !follows)) {
        if (run.length) runs.push(run);
        run = [];
      }
      if (isKnown(place)) run.push(place);
    });
    if (run.length) runs.push(run);
    return runs;
  }

  line(times, values) {
    return this.runs(times, (place) => known(values[place])).map((run) => {
      const points = run.map((place) => [this.x(times[place]), this.y(values[place])]);
      return points.length === 1 ? dot(...points[0]) : `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
    }).join("");
  }

  area(times, low, high) {
    const bottom = (place) => known(low?.[place]) ? low[place] : 0;
    return this.runs(times, (place) => known(high[place])).map((run) => {
      const at = (place, value, aside) => `${(this.x(times[place]) + aside).toFixed(1)},${this.y(value).toFixed(1)}`;
      // A single value is a thin bar.
      const ends = run.length === 1 ? [[run[0], -DOT_PX], [run[0], DOT_PX]] : run.map((place) => [place, 0]);
      const above = ends.map(([place, aside]) => at(place, high[place], aside));
      const below = ends.map(([place, aside]) => at(place, bottom(place), aside)).reverse();
      return `M${above.join("L")}L${below.join("L")}Z`;
    }).join("");
  }

  /** The chart as a sentence. */
  sentence(tops) {
    const totals = (this.stacked ? tops.at(-1) : tops[0])?.filter(known) ?? [];
    if (!totals.length) return `${this.title}: no data in this period`;
    const [low, high] = totals.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, 0]);
    const {start, end} = this.data;
    return `${this.title}, ${moment(start)} to ${moment(end)}: between ${this.format(low)} and ${this.format(high)}, last ${this.format(totals.at(-1))}`;
  }

  point(across) {
    if (!this.data || this.isEmpty || !this.x) return;
    const {times} = this.data;
    let nearest = 0;
    times.forEach((at, place) => {
      if (Math.abs(this.x(at) - across) < Math.abs(this.x(times[nearest]) - across)) nearest = place;
    });
    this.select(nearest);
  }

  step(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (event.key === "Escape") this.select(null);
    if (by === undefined || this.isEmpty) return;
    event.preventDefault();
    const last = this.data.times.length - 1;
    this.select(Math.min(last, Math.max(0, (this.selected ?? last) + by)));
  }

  select(place) {
    this.selected = place;
    this.readout.hidden = place === null;
    setAttribute(this.cursor, "visibility", place === null ? "hidden" : "visible");
    if (place === null) return;
    const {times, series, band} = this.data;
    const across = this.x(times[place]);
    setAttribute(this.cursor, "x1", across.toFixed(1));
    setAttribute(this.cursor, "x2", across.toFixed(1));
    const rows = series.map((each) => [each.kind, each.name, this.format(each.values[place])]);
    if (this.stacked) rows.push([null, "total", this.format(total(series, place))]);
    if (band && known(band.low[place])) rows.push(["band", band.name, `${this.format(band.low[place])} – ${this.format(band.high[place])}`]);
    this.readout.replaceChildren(
      element("b", {}, moment(times[place])),
      ...rows.map(([kind, name, text]) => element("div", {}, kind ? element(`span.key.c-${kind}`) : null, `${name} `, element("b", {}, text))),
    );
    const right = across > this.width / 2;
    this.readout.style.left = right ? "" : `${across + 10}px`;
    this.readout.style.right = right ? `${this.width - across + 10}px` : "";
  }

  fillTable() {
    if (!this.details.open || !this.data) return;
    const {times, series} = this.data;
    const every = Math.max(1, Math.ceil(times.length / MAX_ROWS));
    const head = element("tr", {}, element("th", {scope: "col"}, "Time"), ...series.map((each) => element("th.number", {scope: "col"}, each.name)));
    const rows = times.map((at, place) => [at, place]).filter(([, place]) => place % every === 0).reverse();
    this.table.replaceChildren(element("table", {}, element("caption", {}, every > 1 ? `${this.title}, every ${every}th value` : this.title), element("thead", {}, head), element("tbody", {},
      ...rows.map(([at, place]) => element("tr", {}, element("th", {scope: "row"}, moment(at)), ...series.map((each) => element("td.number", {}, this.format(each.values[place]))))))));
  }
}

function stack(series) {
  const tops = [];
  for (const each of series) {
    const below = tops.at(-1);
    tops.push(each.values.map((value, place) => known(value) ? value + (known(below?.[place]) ? below[place] : 0) : below?.[place] ?? null));
  }
  return tops;
}

/** A single value of a line. */
const dot = (x, y) => `M${(x - DOT_PX).toFixed(1)},${y.toFixed(1)}a${DOT_PX},${DOT_PX} 0 1,0 ${2 * DOT_PX},0a${DOT_PX},${DOT_PX} 0 1,0 ${-2 * DOT_PX},0`;

const total = (series, place) => series.reduce((sum, each) => sum + (each.values[place] ?? 0), 0);

/** A label of an axis: without the digits of a round value. */
const round = (text) => text.replace(/\.0+(?= |$)/, "");

/** Buttons for the period that charts show. */
export const PERIODS = {"1h": 3600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000};
const PERIOD_NAMES = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days"};

/** A choice among periods; calls back with the name of the chosen one. */
export function periodButtons(chosen, onChoose) {
  const group = element("div.choice", {role: "group", "aria-label": "Period"});
  for (const name of Object.keys(PERIODS)) {
    group.append(button(PERIOD_NAMES[name], () => {
      for (const each of group.children) setAttribute(each, "aria-pressed", each.dataset.period === name);
      onChoose(name);
    }, {"data-period": name, "aria-pressed": String(name === chosen)}));
  }
  return group;
}

/** Seconds per point of a period: about as many points as a chart has room for. */
export const stepOf = (period) => ({"1h": 15, "24h": 300, "7d": 1800, "30d": 7200})[period];

/** A heartbeat, and the time until it is in the rollups. */
const ROLLED_UP_SECONDS = 600;

/** The points of a history, without the last steps of a service: not all of its containers have reported yet. */
export function complete({points, step_seconds: step}, kind, end) {
  if (kind !== "services") return points;
  const until = step < ROLLED_UP_SECONDS / 2 ? points.at(-1)?.at : end - Math.max(step, ROLLED_UP_SECONDS);
  const found = points.filter((point) => point.at < until);
  return found.length ? found : points;
}

const SPARK_WIDTH = 96;
const SPARK_HEIGHT = 24;

/** A small line without axes; it decorates the number of its row. */
export function sparkline(values) {
  const svg = shape("svg.spark", {width: SPARK_WIDTH, height: SPARK_HEIGHT, viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`, "aria-hidden": "true"});
  const highest = values.filter(known).reduce((a, b) => Math.max(a, b), 0);
  if (!highest) return svg;
  // From half of the highest value, or from the lowest: changes show, and small ones stay small.
  const lowest = values.filter(known).reduce((a, b) => Math.min(a, b), highest / 2);
  const points = values.map((value, place) => [place * SPARK_WIDTH / Math.max(1, values.length - 1), value])
    .filter(([, value]) => known(value)).map(([x, value]) => [x, SPARK_HEIGHT - 2 - (SPARK_HEIGHT - 4) * (value - lowest) / (highest - lowest)]);
  const [[x, y]] = points;
  const line = () => `M${points.map((point) => point.map((each) => each.toFixed(1)).join(",")).join("L")}`;
  svg.append(shape("path", {d: points.length === 1 ? dot(Math.min(SPARK_WIDTH - 2 * DOT_PX, Math.max(2 * DOT_PX, x)), y) : line()}));
  return svg;
}
