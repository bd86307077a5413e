"""The setting that accesses to documents are recorded, through the API; each change is in the audit log."""

from __future__ import annotations

import pytest

from auth_billing.audit_log import Event
from tests.gateway.http.routes.organization.conftest import FOREIGN, OURS, AdminApi, key_of

PATH = "/document_audit"


def setting(*, enabled: bool) -> dict[str, object]:
    return {"object": "organization.document_audit", "enabled": enabled}


async def test_the_setting_is_changed_and_read(admin_api: AdminApi) -> None:
    assert (await admin_api.request("GET", PATH, key=key_of("reader"))).json() == setting(enabled=False)
    for enabled in (True, False):
        body = {"enabled": enabled}
        changed = await admin_api.request("POST", PATH, json=body, key=key_of("admin"))
        assert changed.json() == setting(enabled=enabled)
        assert (await admin_api.request("GET", PATH)).json() == setting(enabled=enabled)
        assert (await admin_api.request("GET", PATH, key=FOREIGN)).json() == setting(enabled=False)
    entries = [(each.event, each.target, dict(each.details)) for each in admin_api.audit_entries]
    assert entries == [(Event.DOCUMENT_AUDIT_UPDATED, OURS, {"enabled": on}) for on in (True, False)]


@pytest.mark.parametrize("key", ["member", "viewer", "reader"])
async def test_others_do_not_change_it(admin_api: AdminApi, key: str) -> None:
    refused = await admin_api.request("POST", PATH, json={"enabled": True}, key=key_of(key))
    assert refused.status_code == 403
    assert (await admin_api.request("POST", PATH, json={})).status_code == 400
    assert (await admin_api.request("GET", PATH)).json() == setting(enabled=False)
