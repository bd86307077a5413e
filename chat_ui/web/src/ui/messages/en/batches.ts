/** Texts of the page of batches. */

const plural = new Intl.PluralRules("en");

export const batches = {
  batchesTitle: "Batches",
  batchesHint: "A file of requests, one line of JSON each, is answered in the background within 24 hours, and gives way to people. The format is that of OpenAI’s Batch API.",
  batchFile: "Input file",
  batchStart: "Start a batch from a file",
  batchTooLarge: "The file is too large: 200 MiB at most.",
  batchNotKnown: "The first line of the file names no endpoint of batches in its “url”.",
  noBatches: "There are no batches",
  noBatchesHint: "Batches of the project appear here, those of its API keys too.",
  batchStates: {
    validating: "Checking the file",
    failed: "The file is invalid",
    in_progress: "Running",
    finalizing: "Finishing",
    completed: "Completed",
    expired: "Expired after 24 hours",
    cancelling: "Being cancelled",
    cancelled: "Cancelled",
  },
  batchProgress: "Lines that are done",
  batchDone: (done: string, total: string) => `${done} of ${total} lines`,
  batchFailed: (text: string, count: number) => `${text} ${plural.select(count) === "one" ? "error" : "errors"}`,
  batchLeft: (duration: string) => `about ${duration} left`,
  batchProblem: (line: string, message: string) => `Line ${line}: ${message}`,
  batchOutput: "Download answers",
  batchErrors: "Download errors",
  batchCancel: "Cancel batch",
  batchKeep: "Keep running",
  batchCancelTitle: (name: string) => `Cancel ${name}?`,
  batchCancelText: "Lines that run now still end and are paid for. The answers so far can be downloaded; the other lines are not answered.",
};
