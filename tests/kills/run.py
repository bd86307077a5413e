"""Rounds of kills: requests are held in each phase, processes are killed, gates open, and all answers are judged."""

from __future__ import annotations

import asyncio
import math
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx
import psutil

from tests.chaos import books
from tests.chaos.stack import START_TIMEOUT
from tests.kills import evidence
from tests.kills.client import PATIENCE, Asked
from tests.kills.gates import Tag
from tests.kills.stage import PAINTER, KillStack, stage

PHASES = {"rewrite": "desk", "route": "desk", "tool": "desk", "draw": "image", "answer": "desk", "settlement": "desk"}
"""The tool of the requests that are held in a phase."""
GATEWAY, ASSISTANT, WORKER, DRAWER = "gateway", "assistant", "worker", "image worker"
SERVER, MATHEMATICS, BILLING = "MCP server", "mathematics", "billing"
VICTIMS = {
    GATEWAY: tuple(PHASES),
    ASSISTANT: tuple(PHASES),
    WORKER: ("rewrite", "route", "answer", "settlement"),
    DRAWER: ("draw",),
    SERVER: ("tool",),
    MATHEMATICS: ("tool",),
    BILLING: ("settlement",),
}
"""The phases in which each process works at an answer."""
TOOLS = {MATHEMATICS: "math"}
"""The tool of the requests of a victim, if it is not that of their phases."""
MODULES = {SERVER: "tests.kills.desk", MATHEMATICS: "assistant.tools.mathematics"}
"""What the command lines of tools' processes contain."""
SETTLING = 0.1
"""Most seconds from an answer's last token to the kill, if it strikes during settlement."""
REST = 180.0
"""Seconds within which all jobs are settled."""

Say = Callable[[str], None]


@dataclass
class Round:
    """Requests that were held while processes of one kind were killed."""

    victim: str
    answers: list[Asked]
    tasks: list[asyncio.Task[Asked]]
    kills: int = 0

    def held_in(self, *phases: str) -> list[Asked]:
        """Return the requests that are held in one of the phases."""
        return [each for each in self.answers if each.tag.phase in phases]


@dataclass
class Kills:
    """Kills processes of one platform, and keeps what clients got."""

    stack: KillStack
    http: httpx.AsyncClient
    say: Say
    random: random.Random
    rounds: list[Round] = field(default_factory=list)
    faulty: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Answers with a fault, by victim and phase."""
    asked: list[Asked] = field(default_factory=list)
    """All requests, those that only waited for a process included."""
    undisturbed: dict[str, Asked] = field(default_factory=dict)
    """An answer for each tool, with whose bill all others are compared."""
    _numbers: Iterable[int] = field(default_factory=lambda: count(1))

    async def warm_up(self) -> None:
        """Ask for each tool without a kill, until the assistants know all of them."""
        for tool in ("desk", "image", "math"):
            self.undisturbed[tool] = (await self._until_answered(tool))[0]
        # Gateways hold no image before an assistant's heartbeat has it, and bill nothing that they don't hold.
        while not any(part["model"] == PAINTER for part in self.undisturbed["image"].usage["parts"]):
            self.undisturbed["image"] = (await self._until_answered("image"))[0]

    async def kill_all(self, victims: Collection[str], times: int, seconds: float = math.inf) -> None:
        """Kill each of the victims so many times in each of its phases, while requests of both kinds are held there.

        No round begins later than after `seconds`.
        """
        until = time.monotonic() + seconds
        for number in range(times):
            if time.monotonic() > until:
                return
            gateways = self.stack.gateways[number % 2 :] + self.stack.gateways[: number % 2]
            pending = []
            if GATEWAY in victims:  # its clients get the key's claim half a minute later, while others are killed
                pending.append(await self._kill_gateway(gateways))
            for victim, names in self._in_turn().items():
                if victim in victims:
                    await self._kill_each(victim, names)
            for round_ in pending:
                await self._end(round_)
            if SERVER in victims:
                await self._kill_server()
            for streamed in (True, False) if MATHEMATICS in victims else ():
                await self._kill_calculation(streamed=streamed)
            self.say(f"round {number + 1} of {times}: {len(self.asked)} requests")

    def _in_turn(self) -> dict[str, list[str]]:
        """Return the processes by victim that are killed one after the other."""
        stack = self.stack
        return {ASSISTANT: stack.assistants, WORKER: stack.talkers, DRAWER: stack.painters, BILLING: [BILLING]}

    async def interrupt(self, victim: str, name: str) -> None:
        """Kill a process that all others need; phases end, and their steps are delivered, while it is away."""
        round_ = await self._begin(victim, self.stack.gateways)
        killed = self.stack.kill(name)
        round_.kills += 1
        self._open(round_.answers)
        await self.stack.back(name, killed)
        await self._end(round_)

    async def judge(self) -> list[str]:
        """Return what is wrong, once all jobs are settled."""
        connection = self.stack.access.connection
        wrong = []
        try:
            async with asyncio.timeout(REST):
                while not await books.at_rest(connection):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            wrong.append("jobs are not settled")
        jobs = {job["_id"]: job async for job in connection.durable("jobs").find()}
        for each in self.rounds:
            wrong += [] if each.kills else [f"no {each.victim} was killed"]
            for asked in each.answers:
                undisturbed = self.undisturbed[asked.tag.tool]
                found = list(evidence.of_answer(asked, undisturbed, jobs, fails=each.victim == SERVER))
                if each.victim != MATHEMATICS and not self.stack.gates.arrived(asked.tag):
                    found.append(f"was never held in {asked.tag.phase}")
                self.faulty[each.victim, asked.tag.phase] += bool(found)
                wrong += [f"{each.victim} killed, {asked.tag}, streamed {asked.streamed}: {line}" for line in found]
        wrong += await evidence.of_books(connection, self.asked)
        wrong += await evidence.of_images(self.stack, self.asked)
        wrong += [f"left over: {line}" for line in self.stack.left_over()]
        return wrong

    # Rounds

    async def _kill_gateway(self, gateways: Sequence[str]) -> Round:
        """Kill the first gateway; its clients ask again at another one, and have an answer some time later."""
        round_ = await self._begin(GATEWAY, gateways)
        killed = await self._strike(round_, gateways[0])
        self._open(round_.answers)
        await self.stack.back(gateways[0], killed)
        return round_

    async def _kill_each(self, victim: str, names: Sequence[str]) -> None:
        """Kill all processes of a kind, one after the other, so that each request is hit whoever works at it."""
        round_ = await self._begin(victim, self.stack.gateways)
        for name in names:
            await self.stack.back(name, await self._strike(round_, name))
        self._open(round_.answers)
        await self._end(round_)

    async def _strike(self, round_: Round, name: str) -> int:
        """Kill a process while requests are held and, the first time, while others are settled."""
        settling = round_.held_in("settlement") if not round_.kills else []
        billing = None if name == BILLING or not settling else self.stack.process(BILLING)
        if billing is not None:
            billing.suspend()
        self._open(settling)
        if settling:
            await asyncio.sleep(self.random.uniform(0, SETTLING))
        killed = self.stack.kill(name)
        round_.kills += 1
        if billing is not None:
            billing.resume()
        return killed

    async def _kill_server(self) -> None:
        """Kill the MCP servers while their tool is called, which fails: no call is repeated that may have effects."""
        round_ = await self._begin(SERVER, self.stack.gateways)
        self._kill_tool(SERVER)
        round_.kills += 1
        await self._end(round_)
        self._open(round_.answers)
        await self._until_answered("desk", 4)

    async def _kill_calculation(self, *, streamed: bool) -> None:
        """Kill the process of a calculation, which is then computed once more.

        The call starts it, since those of earlier calls are killed before, and imports SymPy for half a second.
        """
        self._kill_tool(MATHEMATICS)
        await asyncio.sleep(SETTLING)
        round_ = await self._begin(MATHEMATICS, self.stack.gateways, streamed=[streamed])
        async with asyncio.timeout(START_TIMEOUT):
            while not round_.kills and not round_.tasks[0].done():
                await asyncio.sleep(0.01)
                round_.kills += self._kill_tool(MATHEMATICS)
        await self._end(round_)

    def _kill_tool(self, victim: str) -> int:
        """Kill the processes of a tool; return how many there were."""
        processes = self.stack.tool_processes(MODULES[victim])
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        return len(processes)

    async def _begin(self, victim: str, gateways: Sequence[str], streamed: Sequence[bool] = (True, False)) -> Round:
        """Ask a question for each phase, streamed and not; return when all are held there."""
        answers = [
            self._question(phase, TOOLS.get(victim, PHASES[phase]), streamed=each, keyed=victim == GATEWAY)
            for phase in VICTIMS.get(victim, PHASES)
            for each in streamed
        ]
        round_ = Round(victim, answers, [self._ask(each, gateways) for each in answers])
        self.rounds.append(round_)
        if victim != MATHEMATICS:
            async with asyncio.timeout(START_TIMEOUT):
                while not all(map(self._is_held_or_ended, answers, round_.tasks)):
                    await asyncio.sleep(0.02)
        return round_

    def _is_held_or_ended(self, asked: Asked, task: asyncio.Task[Asked]) -> bool:
        return task.done() or self.stack.gates.arrived(asked.tag) > 0

    async def _end(self, round_: Round) -> None:
        await asyncio.gather(*round_.tasks)

    def _open(self, answers: Iterable[Asked]) -> None:
        for each in answers:
            self.stack.gates.open(each.tag)

    # Requests

    def _question(self, phase: str, tool: str, *, streamed: bool, keyed: bool = False) -> Asked:
        tag = Tag(f"a{next(iter(self._numbers)):04d}", phase, tool)
        asked = Asked(tag, streamed, key=f"kills-{tag.number}" if keyed else "")
        self.asked.append(asked)
        return asked

    def _ask(self, asked: Asked, gateways: Sequence[str]) -> asyncio.Task[Asked]:
        return asyncio.create_task(asked.ask(self.http, [self.stack.ports[name] for name in gateways]))

    async def _until_answered(self, tool: str, several: int = 1) -> list[Asked]:
        """Ask so many questions at once, until the tool works in all of them."""
        async with asyncio.timeout(START_TIMEOUT):
            while True:
                asked = [self._question("none", tool, streamed=True) for _ in range(several)]
                await asyncio.gather(*(self._ask(each, self.stack.gateways) for each in asked))
                if all(each.whole and each.steps and each.steps[-1]["state"] == "done" for each in asked):
                    return asked
                await asyncio.sleep(0.5)


async def killed(
    times: int,
    victims: Collection[str] = tuple(VICTIMS),
    *,
    of_each: int,
    say: Say,
    seconds: float = math.inf,
    interrupted: Sequence[str] = (),
    keep: Path | None = None,
) -> tuple[Kills, list[str]]:
    """Start a platform, kill each victim so many times in each phase, and return what is wrong.

    The platform has `of_each` assistants and workers. The processes `interrupted`, which all others need, are killed
    once afterwards. Logs are copied to the folder `keep`.

    Raises:
        StartupError: a process did not start.
    """
    async with stage(of_each) as stack:
        headers = {"authorization": f"Bearer {stack.key}"}
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            kills = Kills(stack, http, say, random.Random(1))
            try:
                await kills.warm_up()
                await kills.kill_all(victims, times, seconds)
                for name in interrupted:
                    await kills.interrupt(name, name)
                return kills, await kills.judge()
            finally:
                if keep is not None:
                    for log in stack.processes.home.log.glob("*.log"):
                        shutil.copy(log, keep)
