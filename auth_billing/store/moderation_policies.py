"""MongoDB store of moderation policies.

moderation_policies {_id: "<organisation>:<project>", model, categories: [str] | null, prompts, answers}
"""

from __future__ import annotations

from auth_billing.people.moderation_policies import ModerationPolicy
from auth_billing.store.connection import StoreConnection

COLLECTION = "moderation_policies"


class MongoModerationPolicyStore:
    """MongoDB implementation of `ModerationPolicyStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._policies = connection.durable(COLLECTION)

    async def find(self, organisation: str, project: str) -> ModerationPolicy | None:
        """Return the moderation policy of an organisation's project; `None` if it has none."""
        document = await self._policies.find_one({"_id": _id(organisation, project)})
        if document is None:
            return None
        categories = document["categories"]
        return ModerationPolicy(
            model=document["model"],
            categories=None if categories is None else frozenset(categories),
            prompts=document["prompts"],
            answers=document["answers"],
        )

    async def put(self, organisation: str, project: str, policy: ModerationPolicy) -> None:
        """Store the moderation policy of an organisation's project durably, in place of the earlier one."""
        fields = {
            "model": policy.model,
            "categories": None if policy.categories is None else sorted(policy.categories),
            "prompts": policy.prompts,
            "answers": policy.answers,
        }
        await self._policies.update_one({"_id": _id(organisation, project)}, {"$set": fields}, upsert=True)

    async def remove(self, organisation: str, project: str) -> None:
        """Delete the moderation policy of an organisation's project; no effect if there is none."""
        await self._policies.delete_one({"_id": _id(organisation, project)})


def _id(organisation: str, project: str) -> str:
    return f"{organisation}:{project}"
