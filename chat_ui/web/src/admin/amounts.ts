/** Amounts of money as people type them. Money is integer nano-USD; nothing is rounded. */

const DIGITS = 9;
const AMOUNT = /^(\d{1,9})(?:[.,](\d{1,9}))?$/;

/** Dollars as nano-USD; `null` for nothing typed (no limit), `undefined` for what is no amount. */
export function nanoOf(typed: string): number | null | undefined {
  const text = typed.trim().replace(/^\$/, "").trim();
  if (text === "") return null;
  const [, whole, fraction = ""] = AMOUNT.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const nano = Number(whole + fraction.padEnd(DIGITS, "0"));
  return Number.isSafeInteger(nano) ? nano : undefined;
}

/** As `nanoOf` reads it again. */
export function typedOf(nano: number | null): string {
  if (nano === null) return "";
  const digits = String(nano).padStart(DIGITS + 1, "0");
  const fraction = digits.slice(-DIGITS).replace(/0+$/, "");
  return digits.slice(0, -DIGITS) + (fraction === "" ? "" : `.${fraction}`);
}
