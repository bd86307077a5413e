/**
 * The message tree of a conversation: edited questions and regenerated answers are siblings of the original, and the
 * selected branch is the path from the root to a leaf.
 */

export interface Node {
  readonly id: string;
  readonly parent: string | null;
  readonly created: number;
}

/** Nodes by id. */
export type Tree<T extends Node> = Readonly<Record<string, T>>;

/** Returns the path from the root to `leaf`; empty if there is no such leaf. */
export function pathTo<T extends Node>(nodes: Tree<T>, leaf: string | null): T[] {
  const path: T[] = [];
  const seen = new Set<string>();
  for (let node = find(nodes, leaf); node !== undefined && !seen.has(node.id); node = find(nodes, node.parent)) {
    seen.add(node.id);
    path.push(node);
  }
  return path.reverse();
}

/** Returns the node and its siblings, oldest first. */
export function siblingsOf<T extends Node>(nodes: Tree<T>, node: Node): T[] {
  return childrenOf(nodes, node.parent);
}

/** Returns the leaf that is reached from `id` through the newest children. */
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
