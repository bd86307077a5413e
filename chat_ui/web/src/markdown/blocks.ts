/** One top-level piece of an answer: while an answer grows only its last block changes. */
export type Block =
  | { readonly type: "code"; readonly language: string; readonly code: string; readonly open: boolean }
  | { readonly type: "html"; readonly html: string };

/** Neighbours that a browser lays out together: a page of hundreds of boxes costs each frame something for every box. */
export type Group = readonly Block[];
const GROUP = 12;

/** The groups with one more block at the end; all groups but the last stay the same objects. */
export function withBlock(groups: readonly Group[], block: Block): readonly Group[] {
  const last = groups.at(-1);
  if (last === undefined || last.length === GROUP) return [...groups, [block]];
  return groups.with(-1, [...last, block]);
}
