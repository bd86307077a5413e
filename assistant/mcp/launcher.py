"""Starts the process of an MCP server, which ends with the assistant and gets the listed environment variables only."""

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
    """Return the parameters with which the MCP library starts an MCP server's `command` over stdio.

    The process gets the variables in `environment` and nothing else of the assistant's environment.
    """
    paths = json.dumps([path or os.getcwd() for path in sys.path])
    names = json.dumps(sorted(environment))
    return StdioServerParameters(
        command=sys.executable,
        args=["-I", "-c", _START, paths, str(os.getpid()), names, *command],
        env=dict(environment),
    )


def launch() -> None:
    """Replace this process, which `parameters` describes, by the MCP server's command in its arguments.

    Raises:
        OSError: the command can't be executed.
    """
    _, parent, names, *command = sys.argv
    end_with_parent(int(parent))
    kept = {name: os.environ[name] for name in json.loads(names)}
    os.execvpe(command[0], command, kept)  # noqa: S606 - the operator's own command, without a shell
