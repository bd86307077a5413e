/** Rows of the conversation list: conversations under headings by the time of their last use. */
import type { ConversationSummary } from "../api/chat_types";
import { texts } from "../ui/messages";
import { language } from "../ui/messages/language.svelte";

export type Row =
  | { readonly type: "heading"; readonly key: string; readonly text: string }
  | { readonly type: "conversation"; readonly key: string; readonly summary: ConversationSummary };

/** Returns the rows of a list. `grouped`: with headings; search results have none. `now`: in the person's time zone. */
export function listRows(list: readonly ConversationSummary[], now: Date, grouped: boolean): Row[] {
  const rows: Row[] = [];
  const headingOf = headings(now);
  let last = "";
  for (const summary of list) {
    const heading = grouped ? headingOf(summary) : last;
    if (heading !== last) rows.push({ type: "heading", key: `heading ${heading}`, text: heading });
    last = heading;
    rows.push({ type: "conversation", key: summary.id, summary });
  }
  return rows;
}

/** Returns a function that gives the heading of a conversation. It caches the month's name, which is slow to format. */
function headings(now: Date): (summary: ConversationSummary) => string {
  const format = new Intl.DateTimeFormat(language.locale, { month: "long", year: "numeric" });
  const today = midnight(now);
  let [month, name] = [-1, ""];
  return ({ pinned, updated }) => {
    if (pinned) return texts.pinned;
    const then = new Date(updated * 1000);
    const days = Math.round((today - midnight(then)) / 86_400_000);
    if (days <= 0) return texts.today;
    if (days === 1) return texts.yesterday;
    if (days < 7) return texts.lastSevenDays;
    const itsMonth = then.getFullYear() * 12 + then.getMonth();
    if (itsMonth !== month) [month, name] = [itsMonth, format.format(then)];
    return name;
  };
}

/** Returns the local date as midnight UTC, so that daylight saving time does not shift day differences. */
function midnight(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}
