/** Reads the endpoint of a batch from its input file. */

const HEAD_BYTES = 65_536;
const URL_FIELD = /"url"\s*:\s*"(\/v1\/[a-z/]+)"/;

export const ENDPOINTS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/score",
  "/v1/rerank",
] as const;
export type Endpoint = (typeof ENDPOINTS)[number];

/** Returns the endpoint that the first line of an input file names; null if it names none. */
export async function endpointOf(file: Blob): Promise<Endpoint | null> {
  const url = URL_FIELD.exec(await file.slice(0, HEAD_BYTES).text())?.[1];
  return ENDPOINTS.find((known) => known === url) ?? null;
}
