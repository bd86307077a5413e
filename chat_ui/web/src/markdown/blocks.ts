/** A top-level block of rendered Markdown; while an answer grows only its last block changes. */
export type Block =
  | { readonly type: "code"; readonly language: string; readonly code: string; readonly open: boolean }
  | { readonly type: "html"; readonly html: string };

/** Adjacent blocks in one layout container: hundreds of containers would slow down each frame. */
export type Group = readonly Block[];
const GROUP = 12;

/** Returns the groups with a block appended; all groups but the last stay the same objects. */
export function withBlock(groups: readonly Group[], block: Block): readonly Group[] {
  const last = groups.at(-1);
  if (last === undefined || last.length === GROUP) return [...groups, [block]];
  return groups.with(-1, [...last, block]);
}
