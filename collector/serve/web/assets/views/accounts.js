// Sums of energy accounts, with their price and emissions if these are configured.

import {KILOWATT_HOUR, known} from "../core/format.js";

const DAY = 86_400;

/** The beginning of a day in UTC, by which accounts are kept. */
export const dayStart = (at) => Math.floor(at / DAY) * DAY;

/** The sum of the accounts of days from a time on. */
export function sumDays(accounts, since) {
  const sums = {joules: 0, idle_joules: 0, system_joules: 0, containers_joules: 0};
  for (const each of accounts) {
    if (Date.parse(each.key) / 1000 < since) continue;
    for (const field of Object.keys(sums)) sums[field] += each[field] ?? 0;
  }
  return sums;
}

/** What energy costs and emits, as text; empty if neither is configured. */
export function costOf(joules, prices) {
  return [priceOf(joules, prices), emissionsOf(joules, prices)].filter(Boolean).join(" · ");
}

export function priceOf(joules, {price_per_kwh: price, currency}) {
  if (!known(price)) return "";
  const amount = joules / KILOWATT_HOUR * price;
  return `${amount.toFixed(amount < 1 ? 3 : 2)} ${currency ?? ""}`.trim();
}

export function emissionsOf(joules, {co2_grams_per_kwh: grams}) {
  if (!known(grams)) return "";
  const amount = joules / KILOWATT_HOUR * grams;
  return amount >= 1000 ? `${(amount / 1000).toFixed(2)} kg CO₂` : `${amount.toFixed(amount < 10 ? 1 : 0)} g CO₂`;
}
