/** Estimates when the files of a collection are read. */
import type { Collection } from "../api/types";

/** Number of files that were read at a time in Unix seconds. */
export interface Sample {
  readonly read: number;
  readonly at: number;
}

export function sampleOf({ completed, failed }: Collection, at: number): Sample {
  return { read: completed + failed, at };
}

/** Returns how many files are read per minute since `first`; null if that is not known. */
export function filesPerMinute(first: Sample, { read, at }: Sample): number | null {
  return read <= first.read || at <= first.at ? null : ((read - first.read) * 60) / (at - first.at);
}
