/** Uploads a file to the chat API, and tells how much of it is sent, which `fetch` does not. */
import { ApiError, failureOf, readFailure } from "./failure";
import { API, csrfToken, refresh } from "./http";

/**
 * Sends the content of `file` to a path of the API. `onSent` is called with the number of bytes that are sent so far.
 * Throws `ApiError`, or `AbortError` if `signal` aborts.
 */
export async function upload(path: string, file: File, onSent: (bytes: number) => void, signal: AbortSignal): Promise<void> {
  let response = await send(path, file, onSent, signal);
  if (response.status === 401 && (await refresh())) response = await send(path, file, onSent, signal);
  if (!response.ok) throw new ApiError(await readFailure(response));
}

function send(path: string, file: File, onSent: (bytes: number) => void, signal: AbortSignal): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const query = new URLSearchParams({ name: file.name }).toString();
    request.open("POST", `${API}${path}?${query}`);
    request.setRequestHeader("content-type", "application/json");
    request.setRequestHeader("x-csrf-token", csrfToken());
    request.upload.onprogress = ({ loaded }) => onSent(loaded);
    request.onload = () => {
      const wait = request.getResponseHeader("retry-after");
      resolve(new Response(request.responseText, { status: request.status, headers: wait === null ? {} : { "retry-after": wait } }));
    };
    request.onerror = () => reject(new ApiError(failureOf("network", "", null, "network")));
    request.onabort = () => reject(new DOMException("the upload was cancelled", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
