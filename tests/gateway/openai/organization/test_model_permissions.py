"""Request model of model permissions."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.organization.model_permissions import ModelPermissionsUpdate

VALID = {"mode": "allow_list", "model_ids": ["org/model"]}


def test_an_empty_list_is_a_list() -> None:
    assert ModelPermissionsUpdate.parse({**VALID, "model_ids": []}).model_ids == []


@pytest.mark.parametrize(("field", "value"), [("mode", "allow"), ("model_ids", None), ("model_ids", [1])])
def test_other_modes_and_names_are_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ModelPermissionsUpdate.parse(VALID | {field: value})
    assert (caught.value.param or "").startswith(field)
