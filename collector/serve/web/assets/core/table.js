// A table of any length: the collector searches and sorts, the page requests blocks of rows, and only visible rows are
// elements. Rows and cells are reused.

import {element, setAttribute, setText} from "./dom.js";
import {count, plural} from "./format.js";
import {remember} from "./router.js";
import {beforeSparks} from "./sparks.js";

const BLOCK = 100;
const EXTRA_ROWS = 6;
const FIRST_ROWS = 30;

/**
 * `columns`: `{key, title, term, number, text(row), fill(cell, row), sort, hide}`; `sort` is the value of
 * `order` in the API, `hide` the screen width ("phone" or "narrow") from which on the column is hidden.
 */
export class Table {
  constructor(scope, {name, path, list, columns, order, reverse = false, filters = [], fixed = {}, key, open, searchLabel, every = 10, empty}) {
    Object.assign(this, {scope, name, path, list, columns, filters, fixed, key, open, empty});
    const {parameters} = scope;
    this.query = {
      search: parameters.get("search") ?? "",
      order: parameters.get("order") ?? order,
      reverse: parameters.has("order") ? parameters.get("reverse") === "true" : reverse,
    };
    for (const filter of filters) this.query[filter.name] = parameters.get(filter.name) ?? "";
    this.blocks = new Map();
    this.total = null;
    this.rows = [];
    this.build(searchLabel);
    this.task = scope.every(every, () => this.load());
    addEventListener("scroll", () => this.draw(), {signal: scope.signal, passive: true});
    addEventListener("resize", () => this.draw(), {signal: scope.signal, passive: true});
  }

  build(searchLabel) {
    this.search = element("input", {
      type: "search", "aria-label": searchLabel, placeholder: `${searchLabel}   /`, "data-testid": `${this.name}-search`,
      "data-search": true, autocomplete: "off", spellcheck: "false",
    });
    this.search.value = this.query.search;
    // Without a delay: the next search starts as soon as the current request ends.
    this.search.addEventListener("input", () => this.change({search: this.search.value.trim()}));
    this.status = element("span.soft", {role: "status", "data-testid": `${this.name}-count`});
    const selects = this.filters.map((filter) => {
      const select = element("select", {"aria-label": filter.label, "data-testid": `${this.name}-filter-${filter.name}`},
        ...filter.options.map(([value, text]) => element("option", {value}, text)));
      select.value = this.query[filter.name];
      select.addEventListener("change", () => this.change({[filter.name]: select.value}));
      return select;
    });
    this.heads = element("tr", {"aria-rowindex": "1"}, ...this.columns.map((column) => this.head(column)));
    this.above = element("tr.space", {"aria-hidden": "true"}, element("td"));
    this.below = element("tr.space", {"aria-hidden": "true"}, element("td"));
    this.body = element("tbody", {"data-testid": `${this.name}-rows`});
    this.note = element("p.empty", {hidden: true});
    this.table = element("table.list", {"aria-label": this.name, "aria-rowcount": "-1", "data-testid": `${this.name}-table`},
      element("thead", {}, this.heads), element("tbody", {}, this.above), this.body, element("tbody", {}, this.below));
    this.root = element("div.table", {}, element("div.tools", {}, this.search, ...selects, this.status), this.table, this.note);
    this.markOrder();
  }

  head(column) {
    const attributes = {scope: "col", "data-hide": column.hide ?? null, "data-column": column.key};
    const kind = column.number ? "th.number" : "th";
    if (!column.sort) return element(kind, attributes, element("span", column.term ? {"data-term": column.term, tabindex: "0"} : {}, column.title));
    const sort = element("button", {type: "button", "data-term": column.term ?? null, "data-testid": `${this.name}-sort-${column.sort}`}, column.title);
    sort.addEventListener("click", () => {
      const same = this.query.order === column.sort;
      this.change({order: column.sort, reverse: same ? !this.query.reverse : Boolean(column.number)});
    });
    return element(kind, attributes, sort);
  }

  markOrder() {
    this.columns.forEach((column, place) => {
      const isOrder = column.sort && column.sort === this.query.order;
      setAttribute(this.heads.children[place], "aria-sort", isOrder ? (this.query.reverse ? "descending" : "ascending") : null);
    });
  }

  /** Apply another search, order or filter, and start at the first row. */
  change(changes) {
    Object.assign(this.query, changes);
    this.markOrder();
    this.isNew = true;
    this.task.now();
    remember({...this.query, reverse: this.query.reverse ? "true" : ""});
  }

  request(block) {
    const {reverse, ...query} = this.query;
    return this.scope.get(this.path, {...this.fixed, ...query, ...(reverse ? {reverse: true} : {}), offset: block * BLOCK, limit: BLOCK});
  }

  /** Load the visible blocks again. */
  async load() {
    const isNew = this.isNew;
    this.isNew = false;
    const requested = JSON.stringify(this.query);
    const wanted = isNew ? [0] : this.visibleBlocks();
    const pages = await beforeSparks(Promise.all(wanted.map((block) => this.request(block))));
    // A newer search has started.
    if (requested !== JSON.stringify(this.query)) return;
    if (isNew) scrollTo({top: Math.min(scrollY, this.root.offsetTop)});
    this.blocks = new Map(wanted.map((block, place) => [block, pages[place][this.list]]));
    this.total = pages[0].matching;
    this.note.hidden = this.total > 0;
    this.table.hidden = this.total === 0;
    setText(this.note, this.query.search || this.filters.some((each) => this.query[each.name]) ? "No matches." : this.empty);
    setText(this.status, this.query.search ? `${plural(this.total, "match", "matches")}` : `${count(this.total)} in total`);
    setAttribute(this.table, "aria-rowcount", this.total + 1);
    this.draw();
  }

  get rowHeight() {
    return parseFloat(getComputedStyle(this.table).getPropertyValue("--row")) || 44;
  }

  /** The first and last visible row. */
  visibleRange() {
    if (this.total === null) return [0, FIRST_ROWS];
    const top = this.above.getBoundingClientRect().top;
    const height = this.rowHeight;
    const first = Math.max(0, Math.floor(-top / height) - EXTRA_ROWS);
    const last = Math.ceil((innerHeight - top) / height) + EXTRA_ROWS;
    return [Math.min(first, Math.max(0, this.total - 1)), Math.max(0, Math.min(last, this.total))];
  }

  visibleBlocks() {
    const [first, last] = this.visibleRange();
    const blocks = [];
    for (let block = Math.floor(first / BLOCK); block * BLOCK < Math.max(last, 1); block += 1) blocks.push(block);
    return blocks;
  }

  draw() {
    if (this.total === null) return;
    const [first, last] = this.visibleRange();
    if (this.visibleBlocks().some((block) => !this.blocks.has(block))) this.task.now();
    const height = this.rowHeight;
    this.above.firstChild.style.height = `${first * height}px`;
    this.below.firstChild.style.height = `${Math.max(0, this.total - last) * height}px`;
    const wanted = last - first;
    while (this.body.children.length > wanted) this.body.lastChild.remove();
    while (this.body.children.length < wanted) this.body.append(this.newRow());
    for (let place = first; place < last; place += 1) {
      const data = this.blocks.get(Math.floor(place / BLOCK))?.[place % BLOCK] ?? null;
      this.fill(this.body.children[place - first], data, place);
    }
  }

  newRow() {
    const cells = this.columns.map((column) => element(`td.${column.number ? "number" : "text"}`, {"data-hide": column.hide ?? null, "data-column": column.key}));
    return element("tr", {}, ...cells);
  }

  fill(row, data, place) {
    setAttribute(row, "aria-rowindex", place + 2);
    if (row.shown === data) return;
    row.shown = data;
    const key = data ? this.key(data) : "";
    if (row.dataset.key !== key) row.dataset.key = key;
    setAttribute(row, "class", data ? this.rowClass?.(data) : "waiting");
    this.columns.forEach((column, index) => {
      const cell = row.children[index];
      if (!data) cell.replaceChildren();
      else if (column.fill) column.fill(cell, data);
      else setText(cell, column.text(data));
    });
  }
}

/** A cell with a link to the details, and a second line; unchanged content is kept. */
export function linkCell(cell, address, text, note) {
  const key = `${address}\n${text}\n${note ?? ""}`;
  if (cell.dataset.shown === key) return;
  cell.dataset.shown = key;
  const anchor = element("a", {href: address}, element("bdi", {}, text));
  anchor.title = text.slice(0, 400);
  cell.replaceChildren(anchor, ...(note ? [element("small", {}, element("bdi", {}, note))] : []));
}

/** A bar behind a number: a share of something, 0 to 1. */
export function meterCell(cell, ratio, text, kind = "cpu") {
  if (!cell.firstChild) cell.append(element("span.meter", {}, element(`span.fill.c-${kind}`)), element("span"));
  const width = `${Math.min(100, Math.max(0, (ratio ?? 0) * 100)).toFixed(0)}%`;
  const bar = cell.firstChild.firstChild;
  if (bar.style.width !== width) bar.style.width = width;
  bar.classList.toggle("high", (ratio ?? 0) > 0.85);
  setText(cell.lastChild, text);
}
