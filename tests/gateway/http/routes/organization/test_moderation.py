"""Moderation of projects, through the API; each change is in the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from auth_billing.audit_log import Event
from router.messages import Task
from tests.fakes.scripted_worker import LABELS, status
from tests.gateway.conftest import MODEL, eventually
from tests.gateway.http.routes.organization.conftest import FOREIGN, AdminApi, key_of

CLASSIFIER = "org/classifier"
PATH = "/projects/proj_0/moderation"
NOTHING = {"object": "project.moderation", "model": None, "categories": None, "prompts": False, "answers": False}


@pytest.fixture
async def moderating(admin_api: AdminApi) -> AdminApi:
    """The organisation API of a gateway that has heard of a classifier."""
    stage = admin_api.stage
    stage.worker.bus.send_status(status(CLASSIFIER, "worker-2", task=Task.SCORE, labels=LABELS))
    await eventually(lambda: stage.gateway.models.find(CLASSIFIER) is not None)
    return admin_api


async def test_moderation_is_set_read_and_deleted(moderating: AdminApi) -> None:
    assert (await moderating.request("GET", PATH)).json() == NOTHING
    body = {"model": CLASSIFIER, "categories": ["violence", "hate"], "answers": False}
    set_to = {
        "object": "project.moderation",
        "model": CLASSIFIER,
        "categories": ["hate", "violence"],
        "prompts": True,
        "answers": False,
    }
    assert (await moderating.request("POST", PATH, json=body, key=key_of("admin"))).json() == set_to
    assert (await moderating.request("GET", PATH)).json() == set_to
    deleted = {"object": "project.moderation.deleted", "deleted": True}
    assert (await moderating.request("DELETE", PATH)).json() == deleted
    assert (await moderating.request("GET", PATH)).json() == NOTHING
    entries = [(act.event, act.target, act.project, dict(act.details)) for act in moderating.audit_entries]
    details = {name: value for name, value in set_to.items() if name != "object"}
    assert entries == [
        (Event.MODERATION_UPDATED, "proj_0", "proj_0", details),
        (Event.MODERATION_DELETED, "proj_0", "proj_0", {}),
    ]


@pytest.mark.parametrize(
    ("key", "method", "path", "fields", "status"),
    [
        (key_of("owner"), "POST", PATH, {"model": "org/unknown"}, 404),
        (key_of("owner"), "POST", PATH, {"model": MODEL}, 404),
        (key_of("owner"), "POST", PATH, {"model": CLASSIFIER, "prompts": False, "answers": False}, 400),
        (key_of("owner"), "POST", PATH, {"model": CLASSIFIER, "categories": []}, 400),
        (key_of("owner"), "POST", "/projects/none/moderation", {"model": CLASSIFIER}, 404),
        (key_of("owner"), "GET", "/projects/none/moderation", {}, 404),
        (key_of("viewer"), "POST", PATH, {"model": CLASSIFIER}, 403),
        (FOREIGN, "POST", PATH, {"model": CLASSIFIER}, 404),
    ],
)
async def test_refusals(
    moderating: AdminApi, key: str, method: str, path: str, fields: dict[str, Any], status: int
) -> None:
    response = await moderating.request(method, path, key=key, json=fields or None)
    assert response.status_code == status, response.text
    assert not moderating.stage.organisation.moderation_policies.policies
