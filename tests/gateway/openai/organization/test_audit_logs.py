"""Models of the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from auth_billing.audit_log import Event
from gateway.errors import InvalidRequest
from gateway.openai.organization.audit_logs import AuditLog, AuditLogQuery


def test_a_query_selects_by_event_actor_and_time() -> None:
    query = AuditLogQuery.parse_query(
        [("event_types[]", "project.created"), ("actor_ids", "key_1"), ("effective_at[gte]", "5"), ("limit", "3")]
    )
    assert (query.event_types, query.actor_ids, query.effective_at.gte, query.limit) == (
        [Event.PROJECT_CREATED],
        ["key_1"],
        5,
        3,
    )
    with pytest.raises(InvalidRequest):
        AuditLogQuery.parse_query([("event_types", "project.exploded")])


def test_details_are_written_under_the_events_name() -> None:
    fields: dict[str, Any] = {"project.created": {"id": "p"}}
    entry = AuditLog(id="1", type="project.created", effective_at=2, actor=None, **fields)
    written = entry.model_dump()
    assert written["project.created"] == {"id": "p"}
    assert written["actor"] is None
    assert "project" not in written
