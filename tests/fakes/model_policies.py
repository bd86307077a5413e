"""Model policies in a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from auth_billing.access.model_access import ModelPolicy
from auth_billing.people.model_policies import PolicySubject
from tests.fakes.accounts import Absence


class DictModelPolicyStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.policies: dict[tuple[str, PolicySubject], ModelPolicy] = {}

    async def find(self, organisation: str, subjects: Sequence[PolicySubject]) -> dict[PolicySubject, ModelPolicy]:
        self.absence.check()
        return {each: self.policies[organisation, each] for each in subjects if (organisation, each) in self.policies}

    async def all(self, organisation: str) -> dict[PolicySubject, ModelPolicy]:
        return {subject: policy for (of, subject), policy in self.policies.items() if of == organisation}

    async def put(self, organisation: str, subject: PolicySubject, policy: ModelPolicy) -> None:
        self.policies[organisation, subject] = policy

    async def remove(self, organisation: str, subject: PolicySubject) -> None:
        self.policies.pop((organisation, subject), None)
