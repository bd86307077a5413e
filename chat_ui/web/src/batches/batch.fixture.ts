/** A batch of which a quarter of the lines is done, for tests. */
import type { Batch } from "../api/types";

export const BATCH: Batch = {
  id: "batch_1",
  name: "questions.jsonl",
  model: "tiny",
  endpoint: "/v1/chat/completions",
  state: "in_progress",
  total: 4000,
  completed: 990,
  failed: 10,
  problems: [],
  created: 990,
  began: 1000,
  expires: 1000 + 24 * 3600,
  has_output: false,
  has_errors: false,
};
