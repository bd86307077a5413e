"""Dead letters whose content a worker may have chosen: replaying forged receipts, reading headers."""

from __future__ import annotations

import pytest
from rich.console import Console

from infra.cli.dead_letter_commands import refusal
from infra.cli.dead_letter_tables import table
from router import messages, topology
from router.bus import Bus
from router.dead_letters import DeadLetter, DeadLetters
from router.diagnosis import AT_HEADER, DEATHS_HEADER, REASON_HEADER
from router.transport.base import HeaderValue, Outgoing
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.contract.examples import JOB, RECEIPT


@pytest.fixture
async def bus() -> Bus:
    bus = Bus(MemoryTransport(MemoryBroker(), "billing"))
    await bus.start()
    return bus


async def only_letter(letters: DeadLetters) -> DeadLetter:
    (letter,) = [each async for each in letters]
    return letter


@pytest.mark.parametrize("claimed", [{}, {REASON_HEADER: "the store was away"}])
async def test_a_receipt_that_a_worker_published_is_not_replayed(bus: Bus, claimed: dict[str, HeaderValue]) -> None:
    body = messages.encode(RECEIPT)
    settlements = await bus.settlements(prefetch=10)
    await bus._transport.publish(Outgoing(topology.SETTLE_EXCHANGE, topology.SETTLE_ROUTING_KEY, body, claimed))
    await bus.publish_settlement(RECEIPT)
    (await anext(aiter(settlements))).delivery.ack()  # the forged one before is parked
    async with DeadLetters(bus) as letters:
        letter = await only_letter(letters)
        assert "forged" in (refusal(letter, 0.0, set()) or "")
        with pytest.raises(ValueError, match="receipt"):
            await letters.replay(letter)


async def test_a_receipt_that_billing_parked_for_another_reason_is_replayed(bus: Bus) -> None:
    settlements = aiter(await bus.settlements(prefetch=10))
    await bus.publish_settlement(RECEIPT)
    await bus.park((await anext(settlements)).delivery, "there is no such job")
    async with DeadLetters(bus) as letters:
        letter = await only_letter(letters)
        assert refusal(letter, 0.0, set()) is None
        await letters.replay(letter)
    assert (await anext(settlements)).message == RECEIPT


async def test_headers_of_a_wrong_type_are_unknown(bus: Bus) -> None:
    headers: dict[str, HeaderValue] = {DEATHS_HEADER: "many", AT_HEADER: "then", REASON_HEADER: "[/no markup]"}
    letter = Outgoing(topology.DEAD_LETTERS_EXCHANGE, topology.DIAGNOSED_ROUTING_KEY, messages.encode(JOB), headers)
    await bus._transport.publish(letter)
    async with DeadLetters(bus) as letters:
        found = await only_letter(letters)
        assert (found.deaths, found.at) == (0, JOB.created)
    console = Console(record=True, width=200)
    console.print(table([found]))
    assert "[/no markup]" in console.export_text()
