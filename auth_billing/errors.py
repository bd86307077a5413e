"""Exceptions of sign-in, rate limits and billing; gateway and chat API map them to HTTP responses in a table each.

The tables are in `gateway/http/http_errors.py` and `chat_ui/errors.py`.

AccountError
├── InvalidApiKey, StoreUnavailable, RecordRefused, NoPrice, AlertNotSent, MailNotSent
├── SignInError: InvalidCredentials, InvalidCode, InvalidSession, SecondFactorRequired, ResetLinkVoid, TooManySignIns,
│   PasswordsBusy, MailBusy, MailUnavailable, ProviderUnavailable, ProviderSignInRefused
│   └── InvalidSession: ProviderSignInRequired, ProviderGrantEnded
├── PeopleError: NotPermitted, NoSuchRecord, UnacceptableValue, EmailTaken, InvitationVoid, SignUpClosed, LastOwner
│   └── NotPermitted: RoleFromGroup
├── HoldRefused: InsufficientCredit, BudgetExhausted, AccountClosed
├── RateLimitExceeded
│   └── TokenLimitExceeded
│       └── LargerThanLimit
├── CreditError: UnacceptableAmount, UnacceptableReference, TooMuchCredit, CreditNotAvailable, ReferenceReused,
│                NoSuchCharge, RefundTooLarge
├── PriceConflict: PricesInFile, PricesChanged
└── IdempotencyError: KeyReused, KeyInUse, AnswerNotKept
"""


class AccountError(Exception):
    """Base class of all errors of `auth_billing`."""


class InvalidApiKey(AccountError):
    """The API key is malformed, unknown, wrong, revoked or expired; the client does not learn which."""


class StoreUnavailable(AccountError):
    """The store did not answer in time; the outcome of the operation is unknown."""


class RecordRefused(AccountError):
    """The store can't hold this record (a number or a document too large); retrying does not help."""


class HoldRefused(AccountError):
    """No credit is held for the job, so it may not run; nothing was written."""


class InsufficientCredit(HoldRefused):
    """The organisation's available credit is less than a job may cost; both in nano-USD."""

    def __init__(self, available: int, needed: int) -> None:
        super().__init__(f"{available} nano-USD are available, {needed} are needed")
        self.available = available
        self.needed = needed


class BudgetExhausted(HoldRefused):
    """Less is left of a monthly budget (`holds.budget_names`) than a job may cost; both in nano-USD."""

    def __init__(self, budget: str, left: int, needed: int) -> None:
        super().__init__(f"{left} nano-USD are left of the month's budget of {budget}, {needed} are needed")
        self.budget = budget
        self.left = left
        self.needed = needed


class AccountClosed(HoldRefused):
    """The organisation's account is closed: running jobs are settled, new ones refused."""


class NoPrice(AccountError):
    """The price list has no entry for the model, and no default."""

    def __init__(self, model: str) -> None:
        super().__init__(f"the model {model!r} has no price")
        self.model = model


class RateLimitExceeded(AccountError):
    """Too many requests, or too many concurrent ones. The message is for the client, and names whose limit it is.

    `wait`: seconds until a retry; `kind`: whose limit (`SubjectKind`).
    """

    def __init__(self, message: str, *, wait: float, kind: str) -> None:
        super().__init__(message)
        self.wait = wait
        self.kind = kind


class TokenLimitExceeded(RateLimitExceeded):
    """Too many tokens per minute."""


class LargerThanLimit(TokenLimitExceeded):
    """The request alone needs more tokens than the limit per minute; waiting does not help."""


class CreditError(AccountError):
    """A top-up, promotion or refund is refused; the message is for the caller."""


class UnacceptableAmount(CreditError):
    """The amount is not a positive integer number of nano-USD, or too large."""


class UnacceptableReference(CreditError):
    """The caller's reference of a top-up, promotion or refund is malformed."""


class TooMuchCredit(CreditError):
    """The balance would exceed its maximum."""


class ReferenceReused(CreditError):
    """The reference was used for another credit entry, e.g. with another amount."""


class NoSuchCharge(CreditError):
    """The organisation has no charge for this job: unknown, another organisation's, or not settled yet."""


class RefundTooLarge(CreditError):
    """The refund exceeds the part of the job's charge that was not refunded yet."""


class CreditNotAvailable(CreditError):
    """The organisation has less available credit than should be taken from it."""


class PriceConflict(AccountError):
    """The prices can't be changed this way now; the message is for the caller."""


class PricesInFile(PriceConflict):
    """The prices in force come from the operator's files, which alone can change them."""


class PricesChanged(PriceConflict):
    """The prices were changed by another process since the caller read them."""


class AlertNotSent(AccountError):
    """The webhook did not accept an alert; the message is for the log."""


class MailNotSent(AccountError):
    """The SMTP server did not accept a mail; the message is for the log. `permanent`: a retry does not help."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


class IdempotencyError(AccountError):
    """A request with an idempotency key may not run again, and there is no stored answer to repeat."""


class KeyReused(IdempotencyError):
    """The idempotency key was used with another request."""


class KeyInUse(IdempotencyError):
    """The first request with the idempotency key is still running, perhaps in another process."""


class AnswerNotKept(IdempotencyError):
    """The request ran before with this idempotency key, but its answer was too large to store."""


class SignInError(AccountError):
    """Sign-in failed."""


class InvalidCredentials(SignInError):
    """Unknown e-mail address or wrong password; the client does not learn which."""


class InvalidCode(SignInError):
    """A code of the second factor is wrong, used or expired; the client does not learn which."""


class SecondFactorRequired(SignInError):
    """The password is right, and a code of the second factor is needed before there is a session.

    `challenge`: the token to give with the code (`SecondFactorSignIn.complete`).
    """

    def __init__(self, challenge: str) -> None:
        super().__init__("a code is needed")
        self.challenge = challenge


class ResetLinkVoid(SignInError):
    """A password reset link is unknown, used, expired or replaced, or its maker has lost the right to make it."""


class InvalidSession(SignInError):
    """The browser's access or refresh token is malformed, expired or revoked; the client does not learn which."""


class TooManySignIns(SignInError):
    """Too many sign-in attempts at this account or from this address. `wait`: seconds until the next is allowed."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class PasswordsBusy(SignInError):
    """Too many passwords are being hashed at once; retrying later helps."""


class MailBusy(SignInError):
    """Too many mails wait to be sent; retrying later helps."""


class MailUnavailable(SignInError):
    """The installation has no SMTP server, so it sends no mail."""


class ProviderSignInRequired(InvalidSession):
    """The membership does not accept a password: the user must sign in at the identity provider."""


class ProviderGrantEnded(InvalidSession):
    """The identity provider refuses the refresh token: the user's session there, or the user's account, has ended."""


class ProviderUnavailable(SignInError):
    """The identity provider does not answer in time, or its answer is invalid; the message is for the log."""


class ProviderSignInRefused(SignInError):
    """A sign-in at the identity provider is refused; `reason` is the client's error code, the message for the log."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PeopleError(AccountError):
    """A request about members, projects or keys is refused."""


class NotPermitted(PeopleError):
    """The actor's role does not allow the action."""


class RoleFromGroup(NotPermitted):
    """The member's role comes from a group of the identity provider, and changes only there."""


class NoSuchRecord(PeopleError):
    """The organisation has no record with this id; a record of another organisation counts as missing."""


class UnacceptableValue(PeopleError):
    """An input is invalid; `param` names it, and the message is for the user."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


class EmailTaken(PeopleError):
    """The e-mail address already has an account."""


class InvitationVoid(PeopleError):
    """Invitation unknown, accepted, expired, revoked or for another address; the client does not learn which."""


class SignUpClosed(PeopleError):
    """Sign-up needs an invitation."""


class LastOwner(PeopleError):
    """The organisation would be left without an owner."""
