"""AMX, Intel's matrix unit: asks the operating system for its registers, and has products by AMX checked."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from ctypes import c_long
from pathlib import Path

import structlog

from inference_worker.engine.native.build import cache_folder
from inference_worker.errors import NativeUnavailable

log = structlog.get_logger(__name__)

CHECK = (sys.executable, "-m", "inference_worker.engine.native.amx_check")
"""Command of the process that checks products; this process's id, an instruction set and a thread count follow."""
BOOT_ID, PROCESSORS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/cpuinfo")
"""Linux's files with an id of this machine's boot, and with a paragraph about each processor."""
_PROCESSOR_FIELDS = ("model name", "stepping", "microcode", "flags")
_ROOT = Path(__file__).resolve().parents[3]
"""Folder of the package, where the check starts: Python imports from the working directory first."""
_TIMEOUT = 120.0
"""Seconds of the check, which loads PyTorch and takes less than one itself."""
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18
"""Number of the system call on x86-64, and its arguments."""
_REFUSALS = {
    errno.EINVAL: "Linux is older than 5.16, or a sandbox hides AMX",
    errno.ENOSPC: "the alternate signal stack of a thread is too small for the tile registers",
}


def request_tiles() -> None:
    """Ask the kernel to let this process use AMX's tile registers, all threads included; without it they would crash.

    Raises:
        NativeUnavailable: the kernel or a hypervisor has no AMX, or a policy refuses it.
    """
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(c_long(_ARCH_PRCTL), c_long(_ARCH_REQ_XCOMP_PERM), c_long(_XTILEDATA)):
        number = ctypes.get_errno()
        raise NativeUnavailable(f"no permission to use AMX: {_REFUSALS.get(number, os.strerror(number))}")


def check_in_child(instructions: str, library: Path, threads: int) -> None:
    """Check the products of an instruction set with AMX in a process of its own, as broken hypervisors crash it.

    A file in the cache folder notes the success, so that each library is checked once per processor and boot.

    Raises:
        NativeUnavailable: products are wrong, or the process crashed or could not be run.
    """
    stamp = cache_folder() / f"{library.stem}.checked"
    with suppress(OSError):  # not checked yet
        if stamp.read_text() == _machine():
            return
    try:
        command = [*CHECK, str(os.getpid()), instructions, str(threads)]
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_TIMEOUT, cwd=_ROOT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"can't check AMX: {error}") from error
    if run.returncode < 0:
        raise NativeUnavailable(
            f"the check of AMX was ended by signal {-run.returncode}, {signal.strsignal(-run.returncode)}"
        )
    if run.returncode:
        lines = run.stderr.decode(errors="replace").strip().splitlines()
        raise NativeUnavailable(lines[-1] if lines else "the check of AMX failed without a message")
    try:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(_machine())
    except OSError as error:
        log.warning("AMX is checked again at the next start", reason=str(error))


def _machine() -> str:
    """Return what tells this boot and kind of processor from others, as a virtual machine may move to another host."""
    lines = PROCESSORS.read_text().split("\n\n", 1)[0].splitlines()
    return "\n".join([BOOT_ID.read_text(), *(line for line in lines if line.startswith(_PROCESSOR_FIELDS))])
