"""Administration over stores in dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field

from auth_billing.administration import Administration
from auth_billing.audit_log import AuditLog
from auth_billing.development_account import ORGANISATION
from auth_billing.document_audit import DocumentAudit
from auth_billing.installation import Installation
from auth_billing.keys.key_management import ApiKeys
from auth_billing.keys.service_accounts import ServiceAccounts
from auth_billing.money.budgets import Budgets
from auth_billing.money.credit import Credit
from auth_billing.people.invitations import Invitations
from auth_billing.people.members import Members
from auth_billing.people.model_policies import ModelPolicies
from auth_billing.people.moderation_policies import ModerationPolicies
from auth_billing.people.projects import Projects
from auth_billing.prices.price_book import PriceBook
from router.messages import KeySet
from tests.fakes.accounts import Absence, DictApiKeyStore, DictOrganisationStore
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.billing_stores import DictBalanceStore, DictJobStore
from tests.fakes.budgets import DictBudgetStore
from tests.fakes.credits import DictCreditStore
from tests.fakes.model_policies import DictModelPolicyStore
from tests.fakes.moderation_policies import DictModerationPolicyStore
from tests.fakes.people import DictInvitationStore, DictMembershipStore, DictUserStore
from tests.fakes.prices import ListPriceStore
from tests.fakes.rate_buckets import DictLimitStore
from tests.fakes.service_accounts import DictServiceAccountStore
from tests.fakes.sessions import DictSessionStore
from tests.fakes.usage_reports import ListInstallationUsage, ListUsageReports


@dataclass
class DictOrganisation:
    """All stores of administration, and what stands on them."""

    accounts: DictOrganisationStore = field(default_factory=DictOrganisationStore)
    users: DictUserStore = field(default_factory=DictUserStore)
    memberships: DictMembershipStore = field(default_factory=DictMembershipStore)
    invitations: DictInvitationStore = field(default_factory=DictInvitationStore)
    sessions: DictSessionStore = field(default_factory=DictSessionStore)
    audit_log: ListAuditLogStore = field(default_factory=ListAuditLogStore)
    api_keys: DictApiKeyStore = field(default_factory=DictApiKeyStore)
    news: list[KeySet] = field(default_factory=list)
    """Of keys: what would be announced to gateways."""
    model_policies: DictModelPolicyStore = field(default_factory=DictModelPolicyStore)
    moderation_policies: DictModerationPolicyStore = field(default_factory=DictModerationPolicyStore)
    service_accounts: DictServiceAccountStore = field(default_factory=DictServiceAccountStore)
    balances: DictBalanceStore = field(default_factory=lambda: DictBalanceStore(Absence()))
    limits: DictLimitStore = field(default_factory=DictLimitStore)
    usage: ListUsageReports = field(default_factory=ListUsageReports)
    usage_of_all: ListInstallationUsage = field(default_factory=ListInstallationUsage)
    prices: ListPriceStore = field(default_factory=ListPriceStore)
    jobs: DictJobStore = field(default_factory=lambda: DictJobStore(Absence()))

    operators: str = ORGANISATION

    def __post_init__(self) -> None:
        self.credits = DictCreditStore(self.balances)

    @property
    def administration(self) -> Administration:
        budgets = Budgets(DictBudgetStore(self.balances), self.balances)
        keys = ApiKeys(
            self.api_keys, self.accounts, self.memberships, budgets, self.limits, b"p" * 32, self.news.append
        )
        invitations = Invitations(self.invitations, b"p" * 32)
        return Administration(
            projects=Projects(self.accounts),
            members=Members(self.users, self.memberships, self.accounts, self.sessions, invitations, keys.revoke_all),
            invitations=invitations,
            model_policies=ModelPolicies(self.model_policies, self.accounts, self.memberships, self.news.append),
            moderation_policies=ModerationPolicies(self.moderation_policies, self.accounts),
            keys=keys,
            service_accounts=ServiceAccounts(self.service_accounts),
            budgets=budgets,
            audit_log=AuditLog(self.audit_log),
            document_audit=DocumentAudit(AuditLog(self.audit_log), self.accounts, self.users),
            usage=self.usage,
            installation=Installation(
                self.accounts,
                self.balances,
                Credit(self.credits, self.jobs),
                PriceBook(self.prices),
                self.usage_of_all,
                AuditLog(self.audit_log),
                self.operators,
            ),
        )
