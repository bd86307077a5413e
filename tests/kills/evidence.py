"""Judges answers by the store's documents, the blobs and the machine's processes: each function says what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auth_billing.audit.auditor import Auditor
from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.connection import StoreConnection
from stored_objects.objects.records import RECORD_BYTES
from tests.chaos import books
from tests.fakes.fleet import counted
from tests.kills.client import Asked
from tests.kills.desk import found
from tests.kills.engines import TOKENS, arguments, image_of
from tests.kills.stage import KillStack

KINDS = ["rewrite", "route", "tool"]
TOOLS = {"desk": "mcp.desk.look", "image": "image", "math": "math"}
SPACE = 64 * 64 * 4 + RECORD_BYTES
"""Bytes reserved for an image while it is drawn; a killed process leaves them counted (`StorageQuotas`)."""
MOST_KILLS = 2
"""Most processes that are killed while they work at one request."""


def of_answer(asked: Asked, undisturbed: Asked, jobs: Mapping[str, Mapping[str, Any]], *, fails: bool) -> Iterator[str]:
    """Say what is wrong with an answer and its bill; `fails`: the process of its tool was killed, which shows."""
    if not asked.whole or asked.finish not in ("stop", "length"):
        yield f"not whole: {asked.errors}"
        return
    if asked.text != ("" if asked.tag.tool == "image" and not fails else counted(TOKENS)):
        yield f"another text: {asked.text[:200]!r}"
    if [step["kind"] for step in asked.steps] != KINDS or [step["number"] for step in asked.steps] != [0, 1, 2]:
        yield f"other steps: {asked.steps}"
        return
    yield from _of_tool_step(asked, asked.steps[2], fails=fails)
    if asked.id not in jobs:
        yield "there is no such job"
        return
    yield from _of_bill(asked, jobs[asked.id], undisturbed, fails=fails)
    if not fails and jobs[asked.id]["cost"] != jobs[undisturbed.id]["cost"]:
        yield f"cost {jobs[asked.id]['cost']}, undisturbed {jobs[undisturbed.id]['cost']}"


def _of_tool_step(asked: Asked, step: Mapping[str, Any], *, fails: bool) -> Iterator[str]:
    data = step["data"]
    if step["name"] != TOOLS[asked.tag.tool] or data["arguments"] != arguments(asked.tag)[1]:
        yield f"another call: {step}"
    if fails:
        if step["state"] != "failed" or data["error"]["code"] not in ("unavailable", "too_large"):
            yield f"the tool did not fail: {step}"
    elif step["state"] != "done":
        yield f"the tool failed: {data.get('error')}"
    elif not _is_right(asked, data["result"]):
        yield f"another result: {data['result']}"


def _is_right(asked: Asked, result: Mapping[str, Any]) -> bool:
    match asked.tag.tool:
        case "desk":
            return bool(result["content"] == [{"type": "text", "text": found(str(asked.tag))}])
        case "math":
            return bool(result["result_text"] == str(int(f"3{asked.tag.number[1:]}") ** 3 + 7))
        case _:
            return len(result["images"]) == 1


def _of_bill(asked: Asked, job: Mapping[str, Any], undisturbed: Asked, *, fails: bool) -> Iterator[str]:
    final = job["final"]
    told = {name: asked.usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
    if told != {name: final[name] for name in told}:
        yield f"told {told}, billed {final}"
    if _parts(asked.usage.get("parts", ())) != _parts(final.get("parts", ())):
        yield f"told {asked.usage.get('parts')}, billed {final.get('parts')}"
    wanted = _parts(undisturbed.usage["parts"])
    if fails:
        del wanted[f"tool.{TOOLS[asked.tag.tool]}", "call"]
    if not fails and told["completion_tokens"] != undisturbed.usage["completion_tokens"]:
        yield f"billed {told}, undisturbed {undisturbed.usage}"
    if (billed := _parts(final.get("parts", ()))) != wanted:
        yield f"billed {dict(billed)}, undisturbed {dict(wanted)}"


def _parts(parts: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    """Return the counts of all parts, by model and unit."""
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        usage = part.get("usage", part)
        for name in ("prompt_tokens", "completion_tokens"):
            counts[part["model"], name] += usage.get(name, 0)
        counts.update({(part["model"], unit): count for unit, count in (usage.get("units") or {}).items()})
    return Counter({key: count for key, count in counts.items() if count})


async def of_books(connection: StoreConnection, answers: Sequence[Asked]) -> list[str]:
    """Say what is wrong with ledger, accounts and jobs of a platform at rest: of each request one job is billed."""
    wrong = [str(each) for each in (await Auditor(MongoAuditStore(connection), pause=0.5).audit()).differences]
    rows, jobs = await books.read_rows(connection), await books.read_jobs(connection)
    settled = Counter(row.job for row in rows if row.kind == "settle")
    wrong += [f"{job} was settled {times} times" for job, times in settled.items() if times > 1]
    wrong += [f"{job.id} is {job.state}" for job in jobs.values() if job.state != "settled"]
    whole = [asked.id for asked in answers if asked.whole]
    wrong += [f"{job} is the answer of several requests" for job, times in Counter(whole).items() if times > 1]
    unseen = [job for job in jobs.values() if job.cost and job.id not in whole]
    wrong += [f"{job.id} cost {job.cost}, and is no client's answer" for job in unseen]
    for account in await books.read_accounts(connection):
        if account.held:
            wrong.append(f"still held: {dict(account.held)}")
    return wrong


async def of_images(stack: KillStack, answers: Sequence[Asked]) -> list[str]:
    """Say which images are missing, doubled or not counted.

    An image that a dead gateway's run had drawn is in no answer: it belongs to the run's job, and expires in an hour.
    """
    documents = {each["_id"]: each async for each in stack.access.connection.durable("stored_objects").find()}
    files = {path.name: path for path in (stack.home / "blobs").rglob("blob_*")}
    wrong, shown, asked_for = [], set(), [asked for asked in answers if asked.tag.tool == "image"]
    for asked in asked_for:
        if not asked.whole or asked.steps[-1]["state"] != "done":
            continue
        for image in asked.steps[-1]["data"]["result"]["images"]:
            shown.add(image["blob"])
            path = files.get(image["blob"])
            if path is None or path.read_bytes() != image_of(arguments(asked.tag)[1]["prompt"], asked.seed, 0):
                wrong.append(f"{asked.tag}: image {image['blob']} is missing or another")
    of_dead_runs = sum(asked.broken for asked in asked_for)
    unseen = [blob for blob in documents.keys() | files.keys() if blob not in shown]
    if len(unseen) > of_dead_runs:
        wrong.append(f"{len(unseen)} images are in no answer, {of_dead_runs} may be: {unseen}")
    exact = sum(each["size"] + RECORD_BYTES for each in documents.values())
    most = exact + MOST_KILLS * len(asked_for) * SPACE
    counts = [each async for each in stack.access.connection.durable("stored_object_bytes").find()]
    wrong += [
        f"{each} counted, {exact} stored, {most} reserved" for each in counts if not exact <= each["bytes"] <= most
    ]
    return wrong
