/** The lines of the list: conversations under headings that tell when they were last used. Knows no screen. */
import type { ConversationSummary } from "../api/chat_types";
import { texts } from "../ui/messages";

export type Row =
  | { readonly type: "heading"; readonly key: string; readonly text: string }
  | { readonly type: "conversation"; readonly key: string; readonly summary: ConversationSummary; readonly place: number };

/** `grouped`: with headings; what a search finds has none. `now`: in the person's time zone. */
export function rowsOf(list: readonly ConversationSummary[], now: Date, grouped: boolean): Row[] {
  const rows: Row[] = [];
  let last = "";
  for (const [place, summary] of list.entries()) {
    const heading = grouped ? headingOf(summary, now) : last;
    if (heading !== last) rows.push({ type: "heading", key: `heading ${heading}`, text: heading });
    last = heading;
    rows.push({ type: "conversation", key: summary.id, summary, place });
  }
  return rows;
}

function headingOf({ pinned, updated }: ConversationSummary, now: Date): string {
  if (pinned) return texts.pinned;
  const then = new Date(updated * 1000);
  const days = Math.round((midnight(now) - midnight(then)) / 86_400_000);
  if (days <= 0) return texts.today;
  if (days === 1) return texts.yesterday;
  if (days < 7) return texts.lastSevenDays;
  return monthOf(then);
}

/** As a UTC day, so that a change to summer time does not count. */
function midnight(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}

function monthOf(date: Date): string {
  return date.toLocaleDateString(texts.locale, { month: "long", year: "numeric" });
}
