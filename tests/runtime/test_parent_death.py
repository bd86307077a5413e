"""A process ends with its parent, also if that ended first."""

from __future__ import annotations

import os
import signal

from runtime.parent_death import end_with_parent


def test_a_child_whose_parent_ended_before_it_could_request_the_signal_ends() -> None:
    if not (child := os.fork()):
        end_with_parent(os.getppid() + 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
