/** Web worker that replies to every task; the reply to a failed one is null, and its error goes to the console. */
import { perform, type WorkerRequest, type WorkerReply } from "./worker_tasks";

addEventListener("message", ({ data }: MessageEvent<WorkerRequest>) => void answer(data));

async function answer({ id, task }: WorkerRequest): Promise<void> {
  let reply: WorkerReply = { id, done: null };
  try {
    reply = { id, done: await perform(task) };
  } finally {
    postMessage(reply);
  }
}
