/**
 * Warms up the web worker and the Markdown parser before the first answer. Browsers compile a regular expression at its
 * first use, which for all of the parser's takes longer than two frames.
 */
import { startWorker } from "./worker_client";
import { toBlocks } from "./render_markdown";

/** Every kind of block and inline markup; with letters beyond Latin-1, for which patterns are compiled separately. */
const SAMPLES = [
  "# One\n\n- `two` **three**\n  1. *four*\n\n| five | six |\n|---|---:|\n| $7$ | ~~eight~~ |\n\n",
  "> nine\n\n```ten\neleven\n```\n\n[twelve](https://example.org/) \\(x\\)\n\n***\n\n$$\ny\n$$\n\nOne\nmore & <b>\n\n[13]: /\n\n",
];
const LETTERS = "Łódź — ";
let prepared = false;

/** Warms up at the first call; does nothing in browsers without `requestIdleCallback`. */
export function prepare(): void {
  if (prepared || !("requestIdleCallback" in window)) return;
  prepared = true;
  startWorker();
  // Twice each, so that browsers optimise the patterns.
  readWhenIdle(SAMPLES.flatMap((sample) => [sample + sample, LETTERS + sample + sample]));
}

function readWhenIdle(samples: readonly string[]): void {
  const [sample, ...rest] = samples;
  if (sample === undefined) return;
  requestIdleCallback(() => {
    toBlocks(sample);
    readWhenIdle(rest);
  });
}
