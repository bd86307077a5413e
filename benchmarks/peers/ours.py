"""Measures our own engine in the comparison with peer engines: in a fresh process, with the command line's settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.peers.peer import RUNNERS, Peer, PeerWorkspace, Size, run_sizes

SETTINGS = {
    "Headrace": ["--speculation", "off"],
    "Headrace, 8 bits": ["--speculation", "off", "--activation-bits", "8"],
    "Headrace, speculation": ["--speculation", "auto"],
}
"""Arguments of each of our rows, by its name; the first is compared with the peers."""


class Headrace(Peer):
    """Our engine by one of `SETTINGS`. `arguments` are further ones of `python -m benchmarks.engine`."""

    ours = True

    def __init__(self, workspace: PeerWorkspace, name: str, arguments: Sequence[str]) -> None:
        super().__init__(workspace)
        self._arguments = [*arguments, *SETTINGS[name]]  # the row's own decide
        self.name = name
        self.setting = " ".join(self._arguments)

    def install(self) -> None:
        """Do nothing, because `make setup` installs Headrace's engine."""

    def version(self) -> str:
        """Return a placeholder, because the result records the commit of the checkout."""
        return "this commit"

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run Headrace's engine in a new process at each batch size; return the median seconds of a run, by size.

        Raises:
            PeerFailed: the process failed.
        """
        runner = [sys.executable, "-m", f"{RUNNERS}.headrace_runner", str(self.workspace.model)]
        return run_sizes(runner, sizes, options=self._arguments)
