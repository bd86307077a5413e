"""Logic of the commands `headrace dead ...`: lists, drops and replays dead letters of a running broker.

The broker's user needs permission to consume the dead-letter queues and to publish jobs and usage (the launcher's
`admin` has it).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from auth_billing.money.billing_records import JobState
from auth_billing.store.jobs import MongoJobStore
from infra.accounts.account_services import open_store
from infra.home.credentials import password_file
from infra.home.home import Home
from infra.home.process_records import ProcessRecords
from infra.rabbitmq import definitions
from router.bus import Bus
from router.dead_letters import DeadLetter, DeadLetters
from router.errors import BrokerUnavailable, PublishError
from router.messages import Job
from router.transport.rabbitmq import RabbitMQTransport
from runtime.lifecycle import StartupError

NAME = "headrace-dead"
BROKER = "rabbitmq"


class Done(NamedTuple):
    """Outcome of `drop` or `replay` for one dead letter."""

    letter: DeadLetter
    refused: str | None
    """Why the letter was left in its queue; `None` if the command was executed."""


@dataclass(frozen=True)
class DeadLetterCommands:
    """Lists, drops and replays the dead letters of a broker, through a started bus."""

    bus: Bus
    home: Home
    mongodb_url: str = ""

    async def all(self) -> Sequence[DeadLetter]:
        """Return all dead letters of the broker for reading: they stay in their queues and can't be settled."""
        async with DeadLetters(self.bus) as letters:
            return [letter async for letter in letters]

    async def drop(self, wanted: Sequence[str] | None) -> Sequence[Done]:
        """Delete the dead letters with these ids, or all if `None`; return the deleted ones."""
        async with DeadLetters(self.bus) as letters:
            done = []
            async for letter in letters:
                if wanted is None or letter.id in wanted:
                    letters.drop(letter)
                    done.append(Done(letter, None))
            return done

    async def replay(self, wanted: Sequence[str] | None) -> Sequence[Done]:
        """Publish the dead letters with these ids again, or all if `None`; return each one's outcome, or refusal."""
        async with DeadLetters(self.bus) as letters:
            found = [letter async for letter in letters if wanted is None or letter.id in wanted]
            settled = await self._settled([each.id for each in found if isinstance(each.message, Job)])
            return [Done(each, await self._replay(letters, each, settled)) for each in found]

    async def _replay(self, letters: DeadLetters, letter: DeadLetter, settled: set[str]) -> str | None:
        if (refused := refusal(letter, time.time(), settled)) is not None:
            return refused
        try:
            await letters.replay(letter)
        except PublishError as error:
            return f"the broker did not take it: {error}"
        return None

    async def _settled(self, jobs: Sequence[str]) -> set[str]:
        """Return the jobs whose cost is final."""
        if not jobs:
            return set()
        async with open_store(self.home, self.mongodb_url) as connection:
            found = await MongoJobStore(connection).find(jobs)
        return {job for job, record in found.items() if record.state is not JobState.HELD}


def refusal(letter: DeadLetter, now: float, settled: set[str]) -> str | None:
    """Return why a dead letter can't be replayed now, as a text for the operator; `None` if it can.

    `settled` has the ids of jobs with a final cost.
    """
    if letter.message is None:
        return "it can't be read"
    if letter.forged:
        return "a worker may have forged it: drop it, its job is settled by another receipt or by the sweeper"
    if not isinstance(letter.message, Job):
        return None
    if letter.closed:
        return "it is closed: its client got an error and is not charged; send the request again instead"
    if letter.message.deadline <= now:
        return f"its deadline passed {now - letter.message.deadline:.0f} s ago"
    return "it is settled already: no client waits for it" if letter.id in settled else None


@asynccontextmanager
async def open_dead_letters(home: Home, amqp_url: str, mongodb_url: str) -> AsyncIterator[DeadLetterCommands]:
    """Connect to a broker and yield its dead letter commands; disconnect when the context ends.

    Without a URL it is the broker of the launcher that runs in `home`.

    Raises:
        StartupError: no broker is reachable.
    """
    bus = Bus(RabbitMQTransport(amqp_url or running_broker_url(home), NAME))
    try:
        await bus.start()
        yield DeadLetterCommands(bus, home, mongodb_url)
    except BrokerUnavailable as error:
        raise StartupError(f"cannot reach the broker: {error}") from error
    finally:
        await bus.close()


def running_broker_url(home: Home) -> str:
    """Return the administrator's URL of the private broker that a launcher runs in `home`.

    Raises:
        StartupError: no launcher runs a broker there.
    """
    record = next((each for each in ProcessRecords(home.run).all() if each.name == BROKER), None)
    process = None if record is None else record.process()
    if process is None:
        raise StartupError(
            f"no broker runs in {home.path} (`headrace serve` has none: its queue is in memory), and none is given: "
            "set HEADRACE_AMQP_URL, for example amqp://user:password@127.0.0.1:5672/headrace"
        )
    port = process.environ()["RABBITMQ_NODE_PORT"]
    password = password_file(home, definitions.ADMIN).read_text().strip()
    return f"amqp://{definitions.ADMIN}:{password}@127.0.0.1:{port}/{definitions.VIRTUAL_HOST}"
