/** Web worker that replies to every task; the reply to a failed one is null, and its error goes to the console. */
import { perform, type Asked, type Reply } from "./drawing_tasks";

addEventListener("message", ({ data }: MessageEvent<Asked>) => void answer(data));

async function answer({ id, task }: Asked): Promise<void> {
  let reply: Reply = { id, done: null };
  try {
    reply = { id, done: await perform(task) };
  } finally {
    postMessage(reply);
  }
}
