/** A collection with a file that is read, one that is being read and one that could not be, for tests. */
import type { Collection, CollectionFile, CollectionFiles } from "../api/types";

export const COLLECTION: Collection = {
  id: "vs_1",
  name: "Leases",
  scope: "person",
  person: null,
  may_change: true,
  is_shared: false,
  created: 1000,
  in_progress: 1,
  completed: 1,
  failed: 1,
  size: 2048,
};

const FILE: CollectionFile = { id: "file-1", name: "lease.pdf", created: 1000, state: "completed", problem: null, reason: null, warning: null };

export const FILES: CollectionFiles = {
  collection: COLLECTION,
  files: [
    { ...FILE, warning: "Scanned without text, and not read: page 2 of 3." },
    { ...FILE, id: "file-2", name: "letter.docx", state: "in_progress" },
    { ...FILE, id: "file-3", name: "old.doc", state: "failed", problem: "unsupported_file", reason: "Old Word files are not read." },
  ],
  has_more: false,
};
