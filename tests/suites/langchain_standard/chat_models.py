"""LangChain's standard tests of chat models, for `ChatOpenAI` on chat completions and on the Responses API.

`python -m tests.suites langchain` runs them in an environment that has LangChain; the tests themselves are LangChain's.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestChatCompletions(ChatModelIntegrationTests):
    """`ChatOpenAI` over `/v1/chat/completions`."""

    use_responses_api = False

    @property
    def chat_model_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        params = {"model": os.environ["MODEL"], "use_responses_api": self.use_responses_api}
        return params if self.use_responses_api else {**params, "stream_usage": True}

    @property
    def model_override_value(self) -> str:
        return os.environ["MODEL"]

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> dict[str, list[str]]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> Any:
        """Ask a question whose prompt is partly cached."""
        model = ChatOpenAI(**self.chat_model_params)
        if not stream:
            return model.invoke("Hello")
        chunks = list(model.stream("Hello"))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return whole


class TestResponses(TestChatCompletions):
    """`ChatOpenAI` over `/v1/responses`."""

    use_responses_api = True

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        """Parameters that the Responses API has: it has no `stop`."""
        return {name: value for name, value in super().standard_chat_model_params.items() if name != "stop"}
