"""Names of models that commands get: those that the home's gateways serve are known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.cli import served_models
from infra.cli.served_models import unknown_model_note
from infra.home.home import Home
from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState


def test_models_are_those_of_all_gateways_that_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    home.prepare()
    records = ProcessRecords(home.run)
    assert served_models.served_models(home) is None
    statuses: dict[str, dict[str, Any]] = {
        "gateway-1": {"jobs": 0, "models": ["a"]},
        "gateway-2": {"jobs": 0, "models": ["b", "a"]},
        "worker-1": {"model": "c"},
    }
    for name in [*statuses, "gateway-3"]:
        created = psutil.Process().create_time()
        records.write(
            ProcessRecord(name=name, state=ProcessState.READY, status_url=name, pid=os.getpid(), created=created)
        )
    records.write(ProcessRecord(name="dead", state=ProcessState.READY, status_url="gateway-1", pid=2**22 + 1))
    monkeypatch.setattr(served_models, "get_json", statuses.get)
    assert served_models.served_models(home) == {"a", "b"}
    monkeypatch.setattr(served_models, "get_json", lambda _url: None)
    assert served_models.served_models(home) is None


def test_a_note_names_the_served_models() -> None:
    assert unknown_model_note("a", {"a"}) == ""
    assert "no worker serves nope now" in unknown_model_note("nope", {"b", "a"})
    assert "(served: a, b)" in unknown_model_note("nope", {"b", "a"})
    assert "(served: none)" in unknown_model_note("nope", set())
    assert "no gateway of this home" in unknown_model_note("nope", None)
