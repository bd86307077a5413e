/** The second thread itself: an answer for every task, an empty one where a task went wrong, which its console tells. */
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
