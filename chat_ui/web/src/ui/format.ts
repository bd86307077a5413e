/** Formats numbers, money and times in the person's locale. Money is integer nano-USD, times are Unix seconds. */
import { language } from "./messages/language.svelte";

const NANO = 1_000_000_000;
const SECONDS = { second: 1, minute: 60, hour: 3600 } as const;

export function count(value: number): string {
  return value.toLocaleString(language.locale);
}

/** Formats a number of bytes in MiB, with one decimal. */
export function mebibytes(bytes: number): string {
  return `${(bytes / 1_048_576).toLocaleString(language.locale, { maximumFractionDigits: 1 })} MiB`;
}

/** Formats US dollars; amounts below 10 cents with two significant digits. */
export function money(nano: number): string {
  const dollars = nano / NANO;
  const small = dollars !== 0 && Math.abs(dollars) < 0.1;
  const digits = small ? { maximumSignificantDigits: 2, maximumFractionDigits: 9 } : { maximumFractionDigits: 2 };
  return dollars.toLocaleString(language.locale, { style: "currency", currency: "USD", ...digits });
}

/** Formats the price of a million tokens, from nano-USD per token. */
export function perMillion(nano: number): string {
  const dollars = (nano * 1_000_000) / NANO;
  return dollars.toLocaleString(language.locale, { style: "currency", currency: "USD", maximumFractionDigits: 6 });
}

export function moment(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString(language.locale, { dateStyle: "medium", timeStyle: "short" });
}

export function day(seconds: number): string {
  return new Date(seconds * 1000).toLocaleDateString(language.locale, { dateStyle: "medium" });
}

/** Formats a UTC date such as `2026-11-21`, equally in every time zone. */
export function dayOfUtc(date: string): string {
  return new Date(date).toLocaleDateString(language.locale, { dateStyle: "medium", timeZone: "UTC" });
}

export function percent(part: number): string {
  return part.toLocaleString(language.locale, { style: "percent" });
}

/** Formats a duration by its largest unit: 50 seconds, 5 minutes, 3 hours. */
export function duration(seconds: number): string {
  const unit = seconds < 90 ? "second" : seconds < 5400 ? "minute" : "hour";
  const value = Math.max(1, Math.round(seconds / SECONDS[unit]));
  return value.toLocaleString(language.locale, { style: "unit", unit, unitDisplay: "long" });
}
