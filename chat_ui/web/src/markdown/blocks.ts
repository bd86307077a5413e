/** One top-level piece of an answer: while an answer grows only its last block changes. */
export type Block =
  | { readonly type: "code"; readonly language: string; readonly code: string; readonly open: boolean }
  | { readonly type: "html"; readonly html: string };
