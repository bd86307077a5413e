"""Our own engine in the comparison with peers: in a fresh process like them, with the settings of the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.peers.peer import RUNNERS, Peer, PeerWorkspace, Size, run_sizes


class Headrace(Peer):
    """Our engine. `arguments` configure it, as those of `python -m benchmarks.engine`."""

    ours = True

    def __init__(self, workspace: PeerWorkspace, arguments: Sequence[str], *, speculation: str) -> None:
        super().__init__(workspace)
        self._arguments = [*arguments, "--speculation", speculation]
        self.name = "Headrace" if speculation == "off" else f"Headrace, speculation {speculation}"
        self.setting = " ".join(self._arguments)

    def install(self) -> None:
        """Do nothing: `make setup` installs Headrace's engine."""

    def version(self) -> str:
        """Return a placeholder: the result records the checkout's commit anyway."""
        return "this commit"

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run Headrace's engine in a process at each batch size; return the median seconds of a run, by size."""
        runner = [sys.executable, "-m", f"{RUNNERS}.headrace_runner", str(self.workspace.model)]
        return run_sizes(runner, sizes, options=self._arguments)
