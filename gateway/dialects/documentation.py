"""Writes `docs/other-apis.md`: how to use other vendors' clients, and tables of how each request field behaves here.

    python -m gateway.dialects.documentation > docs/other-apis.md

writes the document; a test compares it with the code.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.dialects.anthropic.request import MessagesPrompt, MessagesRequest
from gateway.dialects.ollama.chat_request import OllamaChatRequest
from gateway.dialects.ollama.embed_request import OllamaEmbeddingsRequest, OllamaEmbedRequest
from gateway.dialects.ollama.generate_request import OllamaGenerateRequest
from gateway.dialects.ollama.models import OllamaShowRequest
from gateway.openai.base import RequestBody
from gateway.openai.compatibility import page

OTHER_ENDPOINTS: Mapping[str, type[RequestBody]] = {
    "/v1/messages": MessagesRequest,
    "/v1/messages/count_tokens": MessagesPrompt,
    "/api/chat": OllamaChatRequest,
    "/api/generate": OllamaGenerateRequest,
    "/api/embed": OllamaEmbedRequest,
    "/api/embeddings": OllamaEmbeddingsRequest,
    "/api/show": OllamaShowRequest,
}
"""Request bodies of other vendors' APIs, by path."""

PREAMBLE = """# Clients of other APIs

Programs written for Anthropic's or Ollama's API run unchanged. Their requests become the same jobs as OpenAI's, with
the same keys, scopes, limits, prices and [idempotency keys](idempotency.md); only the shapes differ. Images are read as
in [prompt-images.md](prompt-images.md); what an assistant does before it answers is billed and not shown. Anthropic's
client passes its own tests ([client-test-suites.md](client-test-suites.md)). Below, `KEY` is an API key
(`OPENAI_API_KEY` of `.headrace/client.env`) and `MODEL` a name of `/v1/models`; the packages are
`anthropic` and `ollama`.

## Anthropic

```python
import anthropic

client = anthropic.Anthropic(base_url="http://127.0.0.1:8000", api_key=KEY)
with client.messages.stream(
    model=MODEL, max_tokens=200, messages=[{"role": "user", "content": "Name three rivers."}]
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
```

`POST /v1/messages` answers whole or by Anthropic's events, with tools, images and thinking. The key is a bearer token
or the header `x-api-key`; `anthropic-version` may have any value. `/v1/models` answers in Anthropic's shape to requests
with that header. Errors have Anthropic's shape and types: 402 `billing_error` if credit or a budget is used up, 529
`overloaded_error` under overload, else the status that OpenAI's clients get.

- Keep-alive comments and one `ping` are sent in a stream. An error after the first token is the event `error`.
- `usage.input_tokens` counts the prompt's tokens that were not in the prefix cache; `cache_read_input_tokens` the rest.
- `thinking` blocks have an empty signature; those of earlier answers may be sent back.
- `is_error` of a tool's result has no effect: the model reads the result's content.
- A tool's `input` that is not a JSON object is `{"INVALID_JSON": text}`, which only models without a grammar write.
- Anthropic's other routes are not served; for batches use [`/v1/batches`](batches.md).
- `POST /v1/messages/count_tokens` counts a prompt's tokens with the model's own tokenizer; it costs nothing.

## Ollama

```python
import ollama

client = ollama.Client("http://127.0.0.1:8000", headers={"Authorization": f"Bearer {KEY}"})
for chunk in client.chat(MODEL, [{"role": "user", "content": "Name three rivers."}], stream=True):
    print(chunk.message.content, end="", flush=True)
```

`/api/chat`, `/api/generate`, `/api/embed`, `/api/embeddings`, `/api/tags`, `/api/show` and `/api/version` answer as
Ollama's do, `chat` and `generate` by default as lines of JSON. Every route but `/api/version` needs an API key, which
clients can send as a header (`OLLAMA_API_KEY` for Ollama's own). Bodies need no
`Content-Type`. Errors are `{"error": "..."}`, in a stream as its last line.

- Models are managed by the operator: `/api/pull`, `/api/push`, `/api/create`, `/api/copy`, `/api/delete`, `/api/ps` and
  `/api/blobs` answer 400. Names have no tags: `/api/tags` lists them.
- Tool calls are sent whole. Results are matched with calls by `tool_call_id`, `tool_name` or order.
- Ollama's client does not repeat a request that is answered 503, as on a busy machine; OpenAI's and Anthropic's do.
- `prompt_eval_duration` is the time until the first token, queueing included; `load_duration` is 0.

"""


if __name__ == "__main__":
    print(page(PREAMBLE, OTHER_ENDPOINTS), end="")
