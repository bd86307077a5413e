/** Converts between dollar amounts as people type them and integer nano-USD, without rounding. */

const DIGITS = 9;
const AMOUNT = /^(\d{1,9})(?:[.,](\d{1,9}))?$/;

/** Returns typed dollars as nano-USD; `null` for an empty text (no limit), `undefined` for an invalid amount. */
export function parseDollars(typed: string): number | null | undefined {
  const text = typed.trim().replace(/^\$/, "").trim();
  if (text === "") return null;
  const [, whole, fraction = ""] = AMOUNT.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const nano = Number(whole + fraction.padEnd(DIGITS, "0"));
  return Number.isSafeInteger(nano) ? nano : undefined;
}

/** Returns nano-USD as the text that `parseDollars` parses to the same amount. */
export function formatDollars(nano: number | null): string {
  if (nano === null) return "";
  const digits = String(nano).padStart(DIGITS + 1, "0");
  const fraction = digits.slice(-DIGITS).replace(/0+$/, "");
  return digits.slice(0, -DIGITS) + (fraction === "" ? "" : `.${fraction}`);
}

const MILLION = 1_000_000;

/** Returns a typed price, in dollars per million tokens, as nano-USD per token; `undefined` if it is not exact. */
export function parsePrice(typed: string): number | undefined {
  const nano = parseDollars(typed);
  return nano === undefined || nano === null || nano % MILLION !== 0 ? undefined : nano / MILLION;
}

/** Returns nano-USD per token as the text that `parsePrice` parses to the same price. */
export function formatPrice(nano: number): string {
  return formatDollars(nano * MILLION);
}
