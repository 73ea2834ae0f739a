// Axes: ticks at round values and at round times.

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const TIME_STEPS = [
  MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
];
const STEPS = [1, 2, 2.5, 5, 10];

/** Values from 0 to the first round one that covers `highest`; `base` 1024 for amounts of bytes. */
export function valueTicks(highest, maxTicks = 4, base = 10) {
  if (!(highest > 0)) return [0, 1];
  const unit = base === 1024 ? 1024 ** Math.max(0, Math.floor(Math.log(highest) / Math.log(1024))) : 1;
  const rough = highest / unit / maxTicks;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = STEPS.find((each) => each * power >= rough * (1 - 1e-9)) * power * unit;
  const last = Math.max(1, Math.ceil(highest / step - 1e-9));
  return Array.from({length: last + 1}, (_, place) => place * step);
}

/** Round times between two times, at most as many as fit; each with whether a day begins. */
export function timeTicks(start, end, maxTicks) {
  const step = TIME_STEPS.find((each) => (end - start) / each <= maxTicks) ?? TIME_STEPS.at(-1);
  // Days and hours begin in the time zone of the browser.
  const shift = new Date(end * 1000).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((start - shift) / step) * step + shift;
  const ticks = [];
  for (let at = first; at <= end; at += step) ticks.push({at, isDay: (at - shift) % DAY === 0});
  return ticks;
}
