// Numbers and times for people.

export const UNKNOWN = "–";
export const RESOURCES = ["cpu", "memory", "disk", "network"];
export const RESOURCE_NAMES = {cpu: "CPU", memory: "Memory", disk: "Disk", network: "Network"};
/** The field of each resource in quantities of the API. */
export const FIELDS = {
  cpu: "cpu_cores", memory: "memory_bytes", disk: "disk_bytes_per_second", network: "network_bytes_per_second",
};

export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

const or = (format) => (value) => known(value) ? format(value) : UNKNOWN;

function scaled(value, units, factor, digits) {
  let step = 0;
  while (Math.abs(value) >= factor && step < units.length - 1) {
    value /= factor;
    step += 1;
  }
  return `${step === 0 ? Math.round(value) : value.toFixed(digits)} ${units[step]}`;
}

/** Three significant digits, or all digits of a large number. */
const number = (value) => {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
};

export const bytes = or((value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024, 1));
export const rate = or((value) => `${bytes(value)}/s`);
export const cores = or((value) => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(value < 0.1 ? 3 : 2));
export const watts = or((value) => Math.abs(value) >= 10_000 ? `${number(value / 1000)} kW` : `${number(value)} W`);
export const percent = or((value) => `${Math.round(value * 100)}%`);
/** A share of time, with more digits if it is small. */
export const waiting = or((value) => `${value > 0 && value < 0.0995 ? (value * 100).toFixed(value < 0.001 ? 2 : 1) : Math.round(value * 100)}%`);
export const share = or((value) => `${(value * 100).toFixed(2)}%`);
export const count = or((value) => Math.round(value).toLocaleString("en"));
export const milliseconds = or((value) => `${(value * 1000).toFixed(value < 0.001 ? 2 : value < 0.1 ? 1 : 0)} ms`);

const WATT_HOUR = 3600;
export const KILOWATT_HOUR = 3.6e6;

/** Energy in the unit that fits. */
export const energy = or((joules) => {
  const size = Math.abs(joules);
  if (size >= KILOWATT_HOUR) return `${number(joules / KILOWATT_HOUR)} kWh`;
  if (size >= WATT_HOUR) return `${number(joules / WATT_HOUR)} Wh`;
  if (size >= WATT_HOUR / 1000) return `${number(joules * 1000 / WATT_HOUR)} mWh`;
  return `${number(joules)} J`;
});

const AMOUNTS = {cpu: (value) => known(value) ? `${cores(value)} ${value === 1 ? "core" : "cores"}` : UNKNOWN, memory: bytes, disk: rate, network: rate};

/** An amount of a resource with its unit. */
export const amount = (resource, value) => AMOUNTS[resource](value);

export const duration = or((seconds) => {
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
});
export const ago = or((seconds) => `${duration(Math.max(0, seconds))} ago`);

const TIME = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit"});
const SECONDS = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const DAY = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short"});
const WHOLE = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"});

export const time = or((at) => TIME.format(at * 1000));
export const timeWithSeconds = or((at) => SECONDS.format(at * 1000));
export const day = or((at) => DAY.format(at * 1000));
export const moment = or((at) => WHOLE.format(at * 1000));

export const plural = (many, one, several = `${one}s`) => `${count(many)} ${many === 1 ? one : several}`;
/** `+3.20 W`, `−1.00 W`. */
export const signed = (format) => or((value) => `${value < 0 ? "−" : "+"}${format(Math.abs(value))}`);
