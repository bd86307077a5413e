"""Runs background responses while gateways and workers are killed with SIGKILL in turn, and judges what is left.

Each response must have one contiguous stream to its end and one bill that equals its usage, and the ledger no
difference.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import httpx

from auth_billing.people.moderation_policies import ModerationPolicy
from auth_billing.store.moderation_policies import MongoModerationPolicyStore
from gateway.moderation.rules import RULES_MODEL
from infra.home.process_records import kill_group
from infra.launcher.supervisor import ProcessSpec
from tests.chaos.engine_stack import RealStack
from tests.chaos.evidence import Evidence, Job
from tests.chaos.history import Told
from tests.chaos.kill_storm import PATIENCE, Say, StormOutcome
from tests.chaos.stack import Size, Stack, running
from tests.takeovers.follower import Follower

GATEWAYS, WORKERS = 2, 3
SEED = 1


@dataclass(frozen=True)
class Plan:
    """Number and lengths (tokens) of responses, and the number of kills, at least `every` seconds apart."""

    responses: int
    kills: int
    every: float
    tokens: tuple[int, int]
    real: bool = False
    """Whether workers serve the real model instead of counting."""
    moderated: bool = False
    """Whether answers of counting workers are checked: they end before the number `BLOCKED`."""


@dataclass(kw_only=True)
class Outcome(StormOutcome):
    """One run, judged."""

    plan: Plan
    followers: list[Follower]
    takeovers: int = 0
    """Number of times that a gateway claimed a run of another one."""


BLOCKED = 33
"""Number that the rules of a moderated platform find."""


class ModeratedStack(Stack):
    """A platform whose gateways have rules of moderation."""

    def spec(self, name: str) -> ProcessSpec:
        """Return how a process is run."""
        spec = super().spec(name)
        if name not in self.gateways:
            return spec
        rules = self.home / "moderation.toml"
        rules.write_text(f'[categories.violence]\nwords = ["{BLOCKED}"]\n')
        return replace(spec, environment={**spec.environment, "HEADRACE_MODERATION_RULES": str(rules)})

    async def check_answers(self) -> None:
        """Have the rules check the answers of the key's project."""
        principal = await self.access.authenticator().authenticate(self.key)
        policies = MongoModerationPolicyStore(self.access.connection)
        await policies.put(principal.tenant, principal.project, ModerationPolicy(RULES_MODEL))


async def storm(plan: Plan, say: Say, keep: Path) -> Outcome:
    """Run a plan on a platform of its own; its logs and all that was wrong are copied to the folder `keep`.

    Raises:
        StartupError: The platform did not start.
    """
    # Room for all responses at two workers: those of a killed one need not wait.
    size = Size(GATEWAYS, WORKERS, capacity=-(-plan.responses // (WORKERS - 1)), step_seconds=0.25)
    kind = RealStack if plan.real else ModeratedStack if plan.moderated else Stack
    async with running(size, kind=kind) as stack, _clients(stack) as clients:
        if isinstance(stack, ModeratedStack):
            await stack.check_answers()
        draw = random.Random(SEED)
        followers = [
            Follower(number, draw.randint(*plan.tokens), streamed=number % 4 == 0) for number in range(plan.responses)
        ]
        outcome = Outcome(plan=plan, followers=followers)
        async with asyncio.timeout(None) as patience, asyncio.TaskGroup() as tasks:
            for follower in followers:
                tasks.create_task(_follow(follower, clients, stack.model, plan))
            await _kill_in_turn(stack, outcome, say)
            patience.reschedule(asyncio.get_running_loop().time() + PATIENCE)
        say(f"all responses have ended, after {dict(outcome.killed)}")
        for follower in followers:
            await follower.repeat(clients[0], stack.model)
        evidence = await outcome.judge_books(stack)
        runs = [each["run"] async for each in stack.access.connection.durable("responses").find(_RUNS, {"run": 1})]
        outcome.takeovers = sum(run["takeovers"] for run in runs)
        if len(runs) != plan.responses:
            outcome.misbilled.append(f"{len(runs)} responses are stored instead of {plan.responses}")
        judge(outcome, evidence)
        outcome.write(stack, keep)
    return outcome


_RUNS = {"run": {"$exists": True}}


@asynccontextmanager
async def _clients(stack: Stack) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Provide an HTTP client of each gateway."""
    async with AsyncExitStack() as opened:
        headers = {"authorization": f"Bearer {stack.key}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        timeout = httpx.Timeout(10.0, read=60.0)
        yield [
            await opened.enter_async_context(
                httpx.AsyncClient(
                    base_url=f"http://127.0.0.1:{port}",
                    headers=headers,
                    limits=limits,
                    timeout=timeout,
                    trust_env=False,
                )
            )
            for port in stack.ports.values()
        ]


async def _follow(follower: Follower, clients: list[httpx.AsyncClient], model: str, plan: Plan) -> None:
    """Follow a response; half of them begin at once, the others one after the other during the storm."""
    late = max(0, follower.number - plan.responses // 2)
    await asyncio.sleep(late * plan.kills * plan.every / plan.responses)
    await follower.follow(clients, model)


async def _kill_in_turn(stack: Stack, outcome: Outcome, say: Say) -> None:
    """Kill a gateway, a worker, the next gateway, the next worker, ...; the supervisor starts each again.

    A process that is starting is killed as soon as it is ready, so that a busy machine makes the storm longer and not
    the faults fewer.
    """
    began = time.monotonic()
    names = chain.from_iterable(zip(cycle(stack.gateways), cycle(stack.workers), strict=False))
    for name in islice(names, outcome.plan.kills):
        await asyncio.sleep(outcome.plan.every)
        while not stack.is_ready(name):
            await asyncio.sleep(0.1)
        kill_group(stack.record(name).pid)
        outcome.killed[name] += 1
        outcome.seconds = time.monotonic() - began
        ended = sum(each.final is not None for each in outcome.followers)
        say(f"  {outcome.seconds:.0f} s: killed {name}; {ended} responses have ended")


def judge(outcome: Outcome, evidence: Evidence) -> None:
    """Add what was wrong with streams and bills to an outcome."""
    known: set[str] = set()
    for follower in outcome.followers:
        name = f"response {follower.number} ({follower.id})"
        outcome.broken += [f"{name}: {each}" for each in _broken(follower, outcome.plan)]
        billed = [each for each in evidence.jobs.values() if follower.id and _is_of(each, follower.id) and each.cost]
        known |= {each.id for each in billed}
        usage = follower.final and follower.final["usage"]
        told = usage and Told(
            usage["input_tokens"], usage["output_tokens"], usage["input_tokens_details"]["cached_tokens"]
        )
        if [each.billed for each in billed] != [told]:
            outcome.misbilled.append(f"{name}: told {told}, billed {[(each.id, each.billed) for each in billed]}")
    unknown = [each.id for each in evidence.jobs.values() if each.cost and each.id not in known]
    outcome.misbilled += [f"{each} was billed, and is of no response that a client has" for each in unknown]


def _is_of(job: Job, response: str) -> bool:
    return job.id == response or job.id.startswith(f"{response}-")


def is_blocked(follower: Follower, plan: Plan) -> bool:
    """Return whether moderation ends the answer of a response before its last token."""
    return plan.moderated and follower.tokens > BLOCKED


def _broken(follower: Follower, plan: Plan) -> list[str]:
    """Return what was wrong with one stream."""
    found = list(follower.wrong)
    if follower.numbers != list(range(len(follower.numbers))):
        found.append(f"its events have the numbers {follower.numbers}")
    if follower.created != {follower.id}:
        found.append(f"its request was answered with {sorted(follower.created)}")
    final: dict[str, Any] = follower.final or {"status": "never ended", "output": []}
    if final["status"] not in ("completed", "incomplete"):
        found.append(f"it ended as {final['status']}: {final.get('error')}")
    text = "".join(part["text"] for item in final["output"] for part in item["content"])
    if text != follower.text:
        found.append(f"its events have the text {follower.text!r}, and its end has {text!r}")
    whole = "".join(f"{number} " for number in range(follower.tokens))
    if is_blocked(follower, plan):
        reason = (final.get("incomplete_details") or {}).get("reason")
        if not whole.startswith(text) or str(BLOCKED) in text.split() or reason != "content_filter":
            found.append(f"moderation was to end it before {BLOCKED}: {reason}, {text!r}")
    elif not plan.real and text != whole:
        found.append(f"{follower.tokens} tokens were to come: {text!r}")
    return found
