"""Work that does what a sandbox must prevent. Each function is run by `runtime.sandbox.process.run`."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from chat_ui.importing.frames import Batch, Opened
from runtime.sandbox.child import Work
from runtime.sandbox.limits import SandboxUnavailable

AMONG_DESCRIPTORS = range(64)


def echo(order: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Send the order and the source back."""
    yield order
    yield source.read()


def loop(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    while True:
        pass
    yield b""


def stubborn_loop(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    """Loop, and ignore the signals that can be ignored."""
    for number in (signal.SIGPROF, signal.SIGXCPU, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
    yield b""


def sleep(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    threading.Event().wait()
    yield b""


def allocate(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    pieces = []
    while True:
        pieces.append(bytearray(2**20))
    yield b""


def write(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    while True:
        yield bytes(2**16)


def write_a_large_message(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    yield bytes(2**20)


def fail(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    yield b"before"
    raise ValueError


def crash(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    ctypes.string_at(0)
    yield b""


def invalid_messages(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    yield b"\xc1 no MessagePack"


def opens_a_socket(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    socket.create_connection(("127.0.0.1", 80))
    yield msgspec.msgpack.encode(Opened(1))


def endless_batches(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    """Begin like an export file's parser, and never end."""
    yield msgspec.msgpack.encode(Opened(1))
    while True:
        yield msgspec.msgpack.encode(Batch([], []))


def can_not_be_confined(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    """Fail as on a machine without seccomp."""
    raise SandboxUnavailable
    yield b""


def named(name: str) -> Work:
    """Return the work of that name, for a fork server whose work is made by a function."""
    work: Work = globals()[name]
    return work


def show(_order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    """Send the environment, and the open descriptors above those of order, output and errors."""
    yield repr(dict(os.environ)).encode()
    yield repr([each for each in AMONG_DESCRIPTORS if each > 2 and _is_open(each)]).encode()


def _is_open(descriptor: int) -> bool:
    try:
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError as error:
        return error.errno != errno.EBADF  # sockets and pipes have no position
    return True


def attack(order: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Send the name of the exception that an attack raised; empty: it succeeded."""
    try:
        ATTACKS[order.decode()](source)
    except OSError as error:
        error = PermissionError() if error.errno == errno.EPERM else error  # `itimer_error` is one
        yield type(error).__name__.encode()
    else:
        yield b""


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def _thread(_source: BinaryIO) -> None:
    try:
        threading.Thread(target=len, args=("",)).start()
    except RuntimeError as error:
        raise PermissionError(str(error)) from error


def _look_with_empty_path_flag(_source: BinaryIO) -> None:
    """Look for a file by the flag with which the C library asks about open files."""
    at_the_working_directory, empty_path = -100, 0x1000
    _call("fstatat", at_the_working_directory, b"/etc/passwd", ctypes.create_string_buffer(256), empty_path)


def _raise_memory_limit(_source: BinaryIO) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    except ValueError as error:
        raise PermissionError(str(error)) from error


ATTACKS: dict[str, Callable[[BinaryIO], object]] = {
    "internet": lambda _: socket.socket(socket.AF_INET),
    "internet, version 6": lambda _: socket.socket(socket.AF_INET6),
    "local sockets": lambda _: socket.socket(socket.AF_UNIX),
    "netlink": lambda _: socket.socket(socket.AF_NETLINK),
    "packets": lambda _: socket.socket(socket.AF_PACKET),
    "a pair of sockets": lambda _: socket.socketpair(),
    "an existing socket": lambda _: _call("connect", 0, 0, 0),
    "read a file": lambda _: Path("/etc/passwd").read_bytes(),
    "read its own memory": lambda _: Path("/proc/self/environ").read_bytes(),
    "list a folder": lambda _: os.listdir("/"),
    "look for a file": lambda _: Path("/etc/passwd").stat(),
    "look for a file with AT_EMPTY_PATH": _look_with_empty_path_flag,
    "write a file": lambda _: Path("/tmp/sandboxed").write_bytes(b""),
    "delete a file": lambda _: os.unlink("/tmp/sandboxed"),
    "write to its source": lambda source: os.write(source.fileno(), b"x"),
    "cut its source": lambda source: os.ftruncate(source.fileno(), 0),
    "memory of a name": lambda _: os.memfd_create("x"),
    "fork": lambda _: os.fork(),
    "a program": lambda _: os.execv("/bin/true", ["true"]),
    "a thread": _thread,
    "signal its parent": lambda _: os.kill(os.getppid(), 0),
    "trace its parent": lambda _: _call("ptrace", 16, os.getppid(), 0, 0),
    "read its parent": lambda _: _call("process_vm_readv", os.getppid(), 0, 0, 0, 0, 0),
    "more memory": _raise_memory_limit,
    "more time": lambda _: signal.setitimer(signal.ITIMER_PROF, 1000),
    "a namespace": lambda _: _call("unshare", 0x10000000),
    "a terminal's input": lambda _: _call("ioctl", 0, 0x5412, 0),
}
