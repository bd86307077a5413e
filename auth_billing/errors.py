"""What can go wrong with an account. Knows no HTTP: `gateway/errors.py` translates.

AccountError
├── InvalidApiKey        malformed, unknown, wrong, revoked or expired: the caller is never told which
├── StoreUnavailable     the store does not answer: nothing was decided
├── RecordRefused        the store will never take this record, however often it is asked
├── SignInError          a person can't be let in
│   ├── InvalidCredentials   unknown address or wrong password: never told which
│   ├── InvalidSession   the browser's token is malformed, expired, revoked or of another kind: never told which
│   ├── TooManySignIns   too many tries with this account or from this address; `wait` says for how long
│   └── PasswordsBusy    too many passwords are being checked
├── PeopleError          what a person wants of an organisation can't be
│   ├── NotPermitted     the role does not allow it
│   ├── NoSuchRecord     there is none in this organisation; one of another organisation is none
│   ├── UnacceptableValue  a value that a person gave; `param` names it
│   ├── EmailTaken       somebody signed up with this address before
│   ├── InvitationVoid   unknown, used, expired, revoked or for another address: never told which
│   ├── SignUpClosed     only who is invited may sign up
│   └── LastOwner        an organisation always has one
├── HoldRefused          a job may not run because of what it may cost; nothing was written
│   ├── InsufficientCredit  less is left than it may cost
│   ├── BudgetExhausted  less is left of a monthly budget
│   └── AccountClosed    the organisation takes no new work
├── NoPrice              nobody has said what this model costs
├── RateLimitExceeded    too many requests, or too many at once; `wait` says for how long
│   └── TokenLimitExceeded   too many tokens
│       └── LargerThanLimit      the request alone is more than the limit: waiting does not help
├── CreditError          money can't be moved as somebody wants
│   ├── UnacceptableAmount     no positive integer number of nano-USD, or too large a one
│   ├── UnacceptableReference  not what a caller's own name for something may be
│   ├── TooMuchCredit          more than an account can hold
│   ├── ReferenceReused        the reference stands for something else
│   ├── NoSuchCharge           the organisation was not charged for this job: missing, foreign, not settled yet
│   └── RefundTooLarge         more than what is left of the charge
├── AlertNotSent         nobody has taken an alert
└── IdempotencyError     a request with an idempotency key may not run again, and there is no answer to repeat
    ├── KeyReused        the key came with another request before
    ├── KeyInUse         the first request with the key is still running, elsewhere
    └── AnswerNotKept    the first request was answered by more than is kept
"""


class AccountError(Exception):
    """Base of all errors of `auth_billing`."""


class InvalidApiKey(AccountError):
    """The key is malformed, unknown, wrong, revoked or expired."""


class StoreUnavailable(AccountError):
    """The store does not answer in time: nothing was decided."""


class RecordRefused(AccountError):
    """The store can't hold this record (a number too large, a document too long): trying again will not help."""


class HoldRefused(AccountError):
    """A job may not run because of what it may cost."""


class InsufficientCredit(HoldRefused):
    """An organisation has less credit left than a job may cost; both in nano-USD."""

    def __init__(self, available: int, needed: int) -> None:
        super().__init__(f"{available} nano-USD are available, {needed} are needed")
        self.available = available
        self.needed = needed


class BudgetExhausted(HoldRefused):
    """Less is left of a monthly budget (`holds.budgets_of`) than a job may cost; both in nano-USD."""

    def __init__(self, budget: str, left: int, needed: int) -> None:
        super().__init__(f"{left} nano-USD are left of the month's budget of {budget}, {needed} are needed")
        self.budget = budget
        self.left = left
        self.needed = needed


class AccountClosed(HoldRefused):
    """The organisation's account is closed: jobs that run are settled, no new ones begin."""


class NoPrice(AccountError):
    """The price list has no entry for this model, and none for all others."""

    def __init__(self, model: str) -> None:
        super().__init__(f"the model {model!r} has no price")
        self.model = model


class RateLimitExceeded(AccountError):
    """Too many requests, or too many at once. The message is for the client. `wait`: seconds until there is room."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class TokenLimitExceeded(RateLimitExceeded):
    """Too many tokens."""


class LargerThanLimit(TokenLimitExceeded):
    """The request alone is more than the limit: waiting does not help."""


class CreditError(AccountError):
    """Money can't be moved as somebody wants; the message is for who asked."""


class UnacceptableAmount(CreditError):
    """No positive integer number of nano-USD, or too large a one."""


class UnacceptableReference(CreditError):
    """Not what a caller's own name for something may be."""


class TooMuchCredit(CreditError):
    """More than an account can hold."""


class ReferenceReused(CreditError):
    """The reference was used for something else before."""


class NoSuchCharge(CreditError):
    """The organisation was not charged for this job: there is none, it is another's, or not settled yet."""


class RefundTooLarge(CreditError):
    """More than what is left of the charge."""


class AlertNotSent(AccountError):
    """Nobody has taken an alert; the message is for the log."""


class IdempotencyError(AccountError):
    """A request with an idempotency key may not run again, and there is no answer to repeat."""


class KeyReused(IdempotencyError):
    """The key came with another request before."""


class KeyInUse(IdempotencyError):
    """The first request with the key is still running, in another process."""


class AnswerNotKept(IdempotencyError):
    """The first request was answered, by more than is kept."""


class SignInError(AccountError):
    """A person can't be let in."""


class InvalidCredentials(SignInError):
    """Unknown address or wrong password."""


class InvalidSession(SignInError):
    """The browser's token is malformed, expired, revoked or of another kind."""


class TooManySignIns(SignInError):
    """Too many tries with this account or from this address. `wait`: seconds until the next may be made."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class PasswordsBusy(SignInError):
    """Too many passwords are being checked."""


class PeopleError(AccountError):
    """What a person wants of an organisation can't be."""


class NotPermitted(PeopleError):
    """The role does not allow it."""


class NoSuchRecord(PeopleError):
    """There is none in this organisation; one of another organisation is none."""


class UnacceptableValue(PeopleError):
    """A value that a person gave can't be taken; the message is for the person and does not repeat it."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


class EmailTaken(PeopleError):
    """Somebody signed up with this address before."""


class InvitationVoid(PeopleError):
    """The invitation is unknown, used, expired, revoked or for another address."""


class SignUpClosed(PeopleError):
    """Only who is invited may sign up."""


class LastOwner(PeopleError):
    """The organisation would be left without an owner."""
