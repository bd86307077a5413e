"""OpenAI's example of a background stream goes on after its gateway and its worker were killed with `kill -9`.

Real processes and the real lease of ten seconds, so only with `CHAOS_CHAT=1` (`make chaos`).
`tests/gateway/http/routes/test_background_responses.py` has the cases one by one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import openai

from auth_billing.audit.auditor import Auditor
from auth_billing.store.audit import MongoAuditStore
from tests.chaos import books
from tests.chaos.installed import marks_of_a_run, skip_unless_installed
from tests.chaos.stack import MODEL, Size, Stack, running
from tests.chaos.test_chat import kill, worker_at_work

pytestmark = marks_of_a_run("CHAOS_CHAT", "takes a minute: CHAOS_CHAT=1, or make chaos")

TOKENS = 160
PATIENCE_SECONDS = 240.0


def client(stack: Stack, gateway: str) -> openai.AsyncOpenAI:
    url = f"http://127.0.0.1:{stack.ports[gateway]}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=stack.key, max_retries=0, timeout=60)


class Follower:
    """The events that a client has of one response, whichever gateway sent them."""

    def __init__(self) -> None:
        self.id = ""
        self.events: list[Any] = []

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.events if event.type == "response.output_text.delta")

    async def read(self, stream: Any, deltas: int) -> None:
        """Read so many deltas of text in all, or to the end."""
        async for event in stream:
            self.events.append(event)
            if event.type == "response.created":
                self.id = event.response.id
            if sum(each.type == "response.output_text.delta" for each in self.events) >= deltas:
                return


async def test_a_background_stream_goes_on_after_gateway_and_worker_were_killed() -> None:
    skip_unless_installed()
    async with running(Size(gateways=2, workers=2, step_seconds=0.05)) as stack, asyncio.timeout(PATIENCE_SECONDS):
        first, second = client(stack, "gateway-1"), client(stack, "gateway-2")
        reader = Follower()
        asked: dict[str, Any] = {
            "model": MODEL,
            "input": "Count.",
            "max_output_tokens": TOKENS,
            "background": True,
            "stream": True,
        }
        await reader.read(await first.responses.create(**asked), deltas=10)
        kill(stack, worker_at_work(stack))
        kill(stack, "gateway-1")
        await stack.supervisor["gateway-1"].stop()  # and it is not restarted
        after = reader.events[-1].sequence_number
        stream = await second.responses.retrieve(reader.id, stream=True, starting_after=after)
        await reader.read(stream, deltas=10**9)

        numbers = [event.sequence_number for event in reader.events]
        assert numbers == list(range(len(numbers)))
        ended = reader.events[-1].response
        assert reader.events[-1].type == "response.incomplete"
        assert ended.output_text == reader.text
        assert reader.text.split() == [str(number) for number in range(TOKENS)]
        assert ended.usage.output_tokens == TOKENS
        assert (await second.responses.retrieve(reader.id)).output_text == reader.text
        await first.close()
        await second.close()
        connection = stack.access.connection
        while not await books.at_rest(connection):
            await asyncio.sleep(0.5)
        jobs = await books.read_jobs(connection)
        assert sorted(job.billed.completion for job in jobs.values()) == [0, TOKENS]
        assert not (await Auditor(MongoAuditStore(connection), pause=0.5).audit()).differences
