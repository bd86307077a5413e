/** Uploads of files to a collection: a few at a time, with the progress of each, the rate and the time left. */
import { ApiError } from "../api/failure";
import { errorText } from "../ui/error_text";

/** Uploads that run at the same time. */
const AT_ONCE = 3;
/** Seconds of uploading after which the rate says something. */
const RATE_AFTER = 1;

/** Sends a file; `onSent` is called with the number of bytes that are sent so far. */
export type Send = (file: File, onSent: (bytes: number) => void, signal: AbortSignal) => Promise<void>;

/** One file, until it is uploaded. */
export class Upload {
  state = $state<"waiting" | "sending" | "failed">("waiting");
  sent = $state(0);
  /** Why the upload failed. */
  problem = $state("");
  readonly aborter = new AbortController();

  constructor(
    readonly id: number,
    readonly file: File,
  ) {}
}

export class Uploads {
  /** Files that are not uploaded yet, and those that failed. */
  items = $state.raw<readonly Upload[]>([]);
  readonly #send: Send;
  readonly #largest: number;
  readonly #onDone: () => void;
  #next = 0;
  #began = 0;
  /** Bytes of the files that are uploaded since the first of these uploads began. */
  #done = $state(0);
  #now = $state(0);

  /** `onDone` is called after each file that was uploaded; `largest`: bytes of the largest file. */
  constructor(send: Send, onDone: () => void, largest: number) {
    this.#send = send;
    this.#onDone = onDone;
    this.#largest = largest;
  }

  /** Uploads that wait or run. */
  get open(): readonly Upload[] {
    return this.items.filter(({ state }) => state !== "failed");
  }

  /** Bytes per second of all uploads together; null: it is not known yet. */
  get rate(): number | null {
    const seconds = (this.#now - this.#began) / 1000;
    const sent = this.open.reduce((sum, each) => sum + each.sent, this.#done);
    return seconds < RATE_AFTER || sent === 0 ? null : sent / seconds;
  }

  /** Seconds until all files are uploaded; null: that is not known yet. */
  get secondsLeft(): number | null {
    const left = this.open.reduce((sum, { file, sent }) => sum + file.size - sent, 0);
    return this.rate === null ? null : left / this.rate;
  }

  /** Uploads files; one that is empty or too large is not sent, and fails with `problems`. */
  add(files: Iterable<File>, problems: { readonly empty: string; readonly tooLarge: string }): void {
    if (this.open.length === 0) [this.#began, this.#now, this.#done] = [Date.now(), Date.now(), 0];
    const added = [...files].map((file) => new Upload(this.#next++, file));
    for (const each of added) {
      each.problem = each.file.size === 0 ? problems.empty : each.file.size > this.#largest ? problems.tooLarge : "";
      if (each.problem !== "") each.state = "failed";
    }
    this.items = [...this.items, ...added];
    this.#start();
  }

  /** Cancels an upload, or removes one that failed from the list. */
  remove(upload: Upload): void {
    upload.aborter.abort();
    this.items = this.items.filter((each) => each !== upload);
    this.#start();
  }

  /** Cancels all uploads. */
  close(): void {
    for (const each of this.items) each.aborter.abort();
    this.items = [];
  }

  #start(): void {
    const running = this.items.filter(({ state }) => state === "sending").length;
    for (const each of this.items.filter(({ state }) => state === "waiting").slice(0, AT_ONCE - running)) void this.#run(each);
  }

  async #run(upload: Upload): Promise<void> {
    upload.state = "sending";
    const onSent = (bytes: number): void => {
      [upload.sent, this.#now] = [Math.min(bytes, upload.file.size), Date.now()];
    };
    try {
      await this.#send(upload.file, onSent, upload.aborter.signal);
      [this.#done, this.#now] = [this.#done + upload.file.size, Date.now()];
      this.items = this.items.filter((each) => each !== upload);
      this.#onDone();
    } catch (error) {
      if (upload.aborter.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      [upload.state, upload.problem] = ["failed", errorText(error.failure)];
    }
    this.#start();
  }
}
