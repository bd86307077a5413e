"""MongoDB store of model policies: `model_policies {_id: "<organisation>:<kind>:<subject>", mode, ...}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auth_billing.access.model_access import ModelPolicy, PolicyMode
from auth_billing.people.model_policies import PolicySubject
from auth_billing.store.connection import StoreConnection

COLLECTION = "model_policies"


class MongoModelPolicyStore:
    """MongoDB implementation of `ModelPolicyStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._policies = connection.durable(COLLECTION)

    async def find(self, organisation: str, subjects: Sequence[PolicySubject]) -> dict[PolicySubject, ModelPolicy]:
        """Return an organisation's stored model policies of these subjects, by subject; missing ones are left out."""
        return await self._find({"_id": {"$in": [_id(organisation, subject) for subject in subjects]}})

    async def all(self, organisation: str) -> dict[PolicySubject, ModelPolicy]:
        """Return all stored model policies of an organisation, by subject (a project, role or member)."""
        return await self._find({"organisation": organisation})

    async def put(self, organisation: str, subject: PolicySubject, policy: ModelPolicy) -> None:
        """Store the model policy of one subject of an organisation durably, in place of the earlier one."""
        fields = {
            "organisation": organisation,
            "kind": subject.kind,
            "subject": subject.id,
            "mode": policy.mode.value,
            "models": sorted(policy.models),
        }
        await self._policies.update_one({"_id": _id(organisation, subject)}, {"$set": fields}, upsert=True)

    async def remove(self, organisation: str, subject: PolicySubject) -> None:
        """Delete the model policy of one subject of an organisation; no effect if there is none."""
        await self._policies.delete_one({"_id": _id(organisation, subject)})

    async def _find(self, query: Mapping[str, Any]) -> dict[PolicySubject, ModelPolicy]:
        documents = await self._policies.find(query).to_list(None)
        return {
            PolicySubject(each["kind"], each["subject"]): ModelPolicy(
                PolicyMode(each["mode"]), frozenset(each["models"])
            )
            for each in documents
        }


def _id(organisation: str, subject: PolicySubject) -> str:
    return f"{organisation}:{subject.kind}:{subject.id}"
