"""Memory that the assistant adds to `headrace serve`, where it runs in the launcher's process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import psutil

from assistant.server import serve
from assistant.settings import AssistantSettings
from assistant.tools.mathematics.order import Operation, Order
from assistant.tools.mathematics.process import Calculator
from assistant.tools.page_text import PageReader
from assistant.tools.tool import ToolContext
from infra.launcher.readiness import free_port
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport

ROOT = Path(__file__).parents[3]
MOST_BYTES = 300 * 1000**2
IMPORTS = "infra.launcher.all_in_one, auth_billing.__main__, inference_worker.__main__, infra.web_app.app, proxy.server"
CODE = f"""
import asyncio, json, sys
import {IMPORTS}
early = [name for name in ("assistant.server", "sklearn", "sympy") if name in sys.modules]
import psutil
before = psutil.Process().memory_full_info().pss
from tests.infra.launcher.test_assistant_memory import measured
print()
print(json.dumps([early, before, *asyncio.run(measured())]))
"""


async def measured() -> tuple[int, int]:
    """Return the bytes of this process beside an idle assistant, and with its processes after a question for each."""
    stop, own = asyncio.Event(), psutil.Process()
    broker = MemoryBroker()
    bus = Bus(MemoryTransport(broker, "gateway-1"))
    await bus.start()
    transport = MemoryTransport(broker, "assistant-1")
    port = free_port()
    running = asyncio.create_task(serve(AssistantSettings(ops_port=port), stop, transport=transport))
    while not [each for each in own.net_connections() if each.laddr.port == port]:
        await asyncio.sleep(0.05)
        if running.done():
            running.result()
    await asyncio.sleep(0.5)
    idle = own.memory_full_info().pss
    calculator, reader, context = Calculator(), PageReader(), ToolContext("acme", "anna", "en")
    await calculator.compute(Order(Operation.INTEGRATE, "x^2 sin x"), context)
    await reader.read("<p>x", context)
    busy = sum(each.memory_full_info().pss for each in [own, *own.children(recursive=True)])
    calculator.close()
    reader.close()
    stop.set()
    await running
    await bus.close()
    return idle, busy


def test_the_assistant_adds_less_than_300_mb() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, done.stderr
    early, before, idle, busy = json.loads(done.stdout.splitlines()[-1])
    assert early == []  # what an installation without assistant does not pay for
    assert 20 * 1000**2 < idle - before < busy - before < MOST_BYTES, (before, idle, busy)
