"""Moderation policies in a dictionary."""

from __future__ import annotations

from auth_billing.people.moderation_policies import ModerationPolicy
from tests.fakes.accounts import Absence


class DictModerationPolicyStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.policies: dict[tuple[str, str], ModerationPolicy] = {}

    async def find(self, organisation: str, project: str) -> ModerationPolicy | None:
        self.absence.check()
        return self.policies.get((organisation, project))

    async def put(self, organisation: str, project: str, policy: ModerationPolicy) -> None:
        self.policies[organisation, project] = policy

    async def remove(self, organisation: str, project: str) -> None:
        self.policies.pop((organisation, project), None)
