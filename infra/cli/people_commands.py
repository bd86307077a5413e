"""Logic of the commands `headrace reset-password` and `reset-second-factor`, for operators to help people sign in."""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.audit_log import OPERATOR, AuditLog, Event
from auth_billing.errors import NoSuchRecord
from auth_billing.people.account_events import record_account_event
from auth_billing.people.password_reset import ResetLinks
from auth_billing.people.people_records import User
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.password_resets import MongoPasswordResetStore
from auth_billing.store.second_factors import MongoSecondFactorStore
from auth_billing.store.users import MongoUserStore
from infra.accounts.account_services import AccountServices
from infra.accounts.sign_in_services import reset_link


@dataclass(frozen=True)
class PeopleCommands:
    """Resets passwords and second factors. Every method raises `StoreUnavailable` if the store fails."""

    access: AccountServices

    async def reset_password(self, email: str, url: str) -> str:
        """Create a password reset link for the account with this e-mail address, and return the link at `url`.

        The reset is logged for audits.

        Raises:
            NoSuchRecord: no account has this address.
            NotPermitted: the account has no password: a local owner's, or an identity provider's.
        """
        user, connection = await self._user(email), self.access.connection
        links = ResetLinks(
            users=MongoUserStore(connection),
            memberships=MongoMembershipStore(connection),
            store=MongoPasswordResetStore(connection),
            pepper=self.access.pepper,
        )
        token = await links.make(user)
        await self._record(user, Event.PASSWORD_RESET_CREATED)
        return reset_link(url, token)

    async def reset_second_factor(self, email: str) -> None:
        """Remove the second factor of the account with this e-mail address, and log it for audits.

        Raises:
            NoSuchRecord: no account has this address, or it has no second factor.
        """
        user = await self._user(email)
        if not await MongoSecondFactorStore(self.access.connection).remove(user.id):
            raise NoSuchRecord(f"{email} has no second factor")
        await self._record(user, Event.SECOND_FACTOR_DISABLED)

    async def _user(self, email: str) -> User:
        user = await MongoUserStore(self.access.connection).find_by_email(email)
        if user is None:
            raise NoSuchRecord(f"no account has the address {email!r}")
        return user

    async def _record(self, user: User, event: Event) -> None:
        audit_log, memberships = (
            AuditLog(MongoAuditLogStore(self.access.connection)),
            MongoMembershipStore(self.access.connection),
        )
        await record_account_event(audit_log, memberships, user, event, OPERATOR, by="operator")
