"""What can go wrong with an account. Knows no HTTP: `gateway/errors.py` translates.

AccountError
├── InvalidApiKey        malformed, unknown, wrong, revoked or expired: the caller is never told which
├── StoreUnavailable     the store does not answer: nothing was decided
├── RecordRefused        the store will never take this record, however often it is asked
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


class IdempotencyError(AccountError):
    """A request with an idempotency key may not run again, and there is no answer to repeat."""


class KeyReused(IdempotencyError):
    """The key came with another request before."""


class KeyInUse(IdempotencyError):
    """The first request with the key is still running, in another process."""


class AnswerNotKept(IdempotencyError):
    """The first request was answered, by more than is kept."""
