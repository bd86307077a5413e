/** The list of collections, which the API answers in pages. */
import { call } from "../api/call";
import type { Collection } from "../api/types";

export interface CollectionList {
  readonly collections: readonly Collection[];
  /** Number of pages that have these collections. */
  readonly pages: number;
  readonly hasMore: boolean;
}

/** Loads the first `pages` pages, and as many more as it takes to find the collections with the ids `wanted`. */
export async function loadCollections(pages: number, wanted: readonly string[] = []): Promise<CollectionList> {
  const found = new Map<string, Collection>();
  let hasMore = true;
  let after: string | undefined;
  let loaded = 0;
  for (; hasMore && (loaded < pages || wanted.some((id) => !found.has(id))); loaded += 1) {
    const answer = await call("GET /collections", { query: after === undefined ? {} : { after } });
    for (const each of answer.collections) found.set(each.id, each);
    hasMore = answer.has_more;
    after = answer.collections.at(-1)?.id;
  }
  return { collections: [...found.values()], pages: loaded, hasMore };
}
