"""Settings of stored objects: checked, and importable by processes that have no blobs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from stored_objects.settings import BlobSettings


@pytest.mark.parametrize(
    "wrong", [{"blobs_url": "http://host"}, {"blobs_url": "/folder"}, {"blob_max_mib": 0}, {"unknown": 1}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BlobSettings(**wrong)


def test_processes_without_blobs_know_the_names_of_the_settings() -> None:
    """The packages of billing and of proxies have no fsspec, and every command checks the names of all settings."""
    script = (
        "import sys; sys.modules['fsspec'] = None\n"
        "from infra.cli.main import known_variables\n"
        "assert 'HEADRACE_BLOBS_URL' in known_variables()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
