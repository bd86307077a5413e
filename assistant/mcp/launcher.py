"""Start-up of an MCP server's process: it ends with the assistant, and gets the listed environment variables only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from mcp import StdioServerParameters

from runtime.parent_death import end_with_parent

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); from assistant.mcp.launcher import launch; launch()"
)


def parameters(command: Sequence[str], environment: Mapping[str, str]) -> StdioServerParameters:
    """Return what starts `command` with `environment` and nothing else of this process's environment."""
    paths = json.dumps([path or os.getcwd() for path in sys.path])
    names = json.dumps(sorted(environment))
    return StdioServerParameters(
        command=sys.executable,
        args=["-I", "-c", _START, paths, str(os.getpid()), names, *command],
        env=dict(environment),
    )


def launch() -> None:
    """Replace this process by the command in its arguments; called in the process that `parameters` describes.

    Raises:
        OSError: the command can't be executed.
    """
    _, parent, names, *command = sys.argv
    end_with_parent(int(parent))
    kept = {name: os.environ[name] for name in json.loads(names)}
    os.execvpe(command[0], command, kept)  # noqa: S606 - the operator's own command, without a shell
