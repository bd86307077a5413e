/**
 * A conversation as a tree: an edited question and a regenerated answer are siblings of the first one, and what is shown
 * is the way from the root to one leaf. Plain functions; know no state and no screen.
 */

export interface Node {
  readonly id: string;
  readonly parent: string | null;
  readonly created: number;
}

/** By id. */
export type Tree<T extends Node> = Readonly<Record<string, T>>;

/** The way from the root to `leaf`; empty if the leaf is not there. */
export function pathTo<T extends Node>(nodes: Tree<T>, leaf: string | null): T[] {
  const path: T[] = [];
  const seen = new Set<string>();
  for (let node = find(nodes, leaf); node !== undefined && !seen.has(node.id); node = find(nodes, node.parent)) {
    seen.add(node.id);
    path.push(node);
  }
  return path.reverse();
}

/** The node and those beside it, the oldest first. */
export function siblingsOf<T extends Node>(nodes: Tree<T>, node: Node): T[] {
  return childrenOf(nodes, node.parent);
}

/** Where the newest way down from `id` ends. */
export function leafBelow(nodes: Tree<Node>, id: string): string {
  const newest = childrenOf(nodes, id).at(-1);
  return newest === undefined || newest.id === id ? id : leafBelow(nodes, newest.id);
}

function childrenOf<T extends Node>(nodes: Tree<T>, parent: string | null): T[] {
  return Object.values(nodes).filter((node) => node.parent === parent).sort((a, b) => a.created - b.created);
}

function find<T extends Node>(nodes: Tree<T>, id: string | null): T | undefined {
  return id === null ? undefined : nodes[id];
}
