/**
 * Makes ready what the first answer needs, while its question is written: the thread that draws, and the patterns that
 * Markdown is read by. A browser compiles a pattern when it first meets it, which together takes longer than two frames.
 */
import { prepareDrawing } from "./drawing";
import { toBlocks } from "./render_markdown";

/** Every kind of block and of text in a line; letters beyond Latin-1, since patterns are compiled for them once more. */
const SAMPLES = [
  "# One\n\n- `two` **three**\n  1. *four*\n\n| five | six |\n|---|---:|\n| $7$ | ~~eight~~ |\n\n",
  "> nine\n\n```ten\neleven\n```\n\n[twelve](https://example.org/) \\(x\\)\n\n***\n\n$$\ny\n$$\n\nOne\nmore & <b>\n\n[13]: /\n\n",
];
const LETTERS = "Łódź — ";
let prepared = false;

/** At the first call; does nothing in browsers that do not tell when they are idle. */
export function prepare(): void {
  if (prepared || !("requestIdleCallback" in window)) return;
  prepared = true;
  prepareDrawing();
  // Twice each: what is met a second time is compiled better.
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
