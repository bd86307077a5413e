"""Exception classes of the chat API, and the table that maps each to HTTP status, error code and message.

A table row without a message means that the exception's own message is fit for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from auth_billing.errors import (
    AccountError,
    CreditError,
    EmailTaken,
    InvalidCode,
    InvalidCredentials,
    InvalidSession,
    InvitationVoid,
    LastOwner,
    MailBusy,
    MailUnavailable,
    NoSuchRecord,
    NotPermitted,
    PasswordsBusy,
    PriceConflict,
    ProviderSignInRequired,
    ProviderUnavailable,
    ResetLinkVoid,
    RoleFromGroup,
    SignUpClosed,
    TooManySignIns,
    UnacceptableValue,
)
from runtime.strict_json import BodyTimeout, BodyTooLarge, IncompleteBody, MalformedRequest, UnsupportedMediaType

T = TypeVar("T")


class ChatError(Exception):
    """Base of the errors that the chat API raises itself."""


class CrossSite(ChatError):
    """The request may come from another site's page: its origin or its CSRF token is wrong."""


class InvalidField(ChatError):
    """A field of the body is missing or has the wrong type or value; `param` names it."""

    def __init__(self, param: str | None, message: str) -> None:
        super().__init__(message)
        self.param = param


class NoSuchConversation(ChatError):
    """The conversation, message, share or preset does not exist or is another owner's; the client can't see which."""


def existing(record: T | None, id: str) -> T:
    """Return `record`, the result of a look-up by `id` in a chat store, unchanged if it is not `None`.

    Raises:
        NoSuchConversation: `record` is `None`: there is no such conversation, message, share or preset.
    """
    if record is None:
        raise NoSuchConversation(id)
    return record


class ConversationFull(ChatError):
    """A size limit of a conversation or a number limit of its owner is reached; the message says which."""


class StorageFull(ChatError):
    """The person would store more bytes than one person may; the message says how many."""


class FilesUnavailable(ChatError):
    """The folder or bucket that images and files are stored in can't be reached."""


class NoEmbedder(ChatError):
    """No embedding model is served that the person may use, or not the one of the collection."""


class NoSuchMember(ChatError):
    """No member of the organisation has this e-mail address."""


class SearchRefused(ChatError):
    """A search in documents failed; the message says why."""


class AnswerRunning(ChatError):
    """The answer is still being written, so no question can follow that answer yet."""


class ImportRunning(ChatError):
    """The person's last import has not ended."""


class ImportTooCostly(ChatError):
    """Reading the imported file would exceed a limit of time or memory; the message says which."""


class ImportUnavailable(ChatError):
    """This machine can't confine the process that parses import files."""


class Busy(ChatError):
    """This process already runs as many exports, or imports, at once as it may."""


class UnknownUrl(ChatError):
    """No route has this path."""


class MethodNotAllowed(ChatError):
    """The path exists, but not with this method."""


@dataclass(frozen=True)
class ErrorResponse:
    """The HTTP response to an error. If `message` is `None`, the client gets the exception's own message."""

    status: int
    code: str
    message: str | None = None
    retry_after: int | None = None


_BUSY = "The service is busy. Please try again in a moment."

TABLE: Mapping[type[Exception], ErrorResponse] = {
    InvalidCredentials: ErrorResponse(401, "invalid_credentials", "The e-mail address or the password is wrong."),
    InvalidCode: ErrorResponse(401, "invalid_code", "The code is wrong, or was used already."),
    ResetLinkVoid: ErrorResponse(404, "reset_link_void", "This link is not valid, or not any more."),
    MailBusy: ErrorResponse(503, "busy", _BUSY, retry_after=30),
    MailUnavailable: ErrorResponse(409, "no_mail", "This installation sends no mail: ask an administrator for a link."),
    InvalidSession: ErrorResponse(401, "not_signed_in", "You are not signed in."),
    TooManySignIns: ErrorResponse(429, "too_many_sign_ins", "Too many tries to sign in. Please wait a moment."),
    PasswordsBusy: ErrorResponse(503, "busy", _BUSY, retry_after=1),
    ProviderSignInRequired: ErrorResponse(
        401, "password_sign_in_disabled", "Please sign in with your organisation's identity provider."
    ),
    ProviderUnavailable: ErrorResponse(
        503, "provider_unavailable", "The identity provider does not answer. Please try again later.", retry_after=10
    ),
    RoleFromGroup: ErrorResponse(
        409, "role_from_group", "This role comes from a group of the identity provider: change it there."
    ),
    NotPermitted: ErrorResponse(403, "not_permitted", "Your role does not allow this."),
    NoSuchRecord: ErrorResponse(404, "not_found", "There is no such thing in your organisation."),
    UnacceptableValue: ErrorResponse(400, "invalid_value"),
    EmailTaken: ErrorResponse(409, "email_taken", "Somebody has signed up with this e-mail address already."),
    InvitationVoid: ErrorResponse(404, "invitation_void", "This invitation is not valid, or not any more."),
    SignUpClosed: ErrorResponse(403, "sign_up_closed", "To sign up you need an invitation."),
    LastOwner: ErrorResponse(409, "last_owner", "An organisation needs an owner: make somebody else one first."),
    AccountError: ErrorResponse(503, "unavailable", _BUSY, retry_after=5),
    CrossSite: ErrorResponse(403, "cross_site", "The call does not come from this site's own page."),
    InvalidField: ErrorResponse(400, "invalid_value"),
    NoSuchConversation: ErrorResponse(404, "not_found", "There is no such thing here, or it is not yours."),
    ConversationFull: ErrorResponse(409, "full"),
    StorageFull: ErrorResponse(409, "storage_full"),
    FilesUnavailable: ErrorResponse(503, "unavailable", _BUSY, retry_after=5),
    NoEmbedder: ErrorResponse(
        409, "no_embedding_model", "Documents can't be searched at the moment: no embedding model is running."
    ),
    NoSuchMember: ErrorResponse(404, "no_such_member", "No member of your organisation has this e-mail address."),
    SearchRefused: ErrorResponse(409, "search_refused"),
    AnswerRunning: ErrorResponse(409, "answer_running", "This is being written. Stop it first, or wait for its end."),
    ImportRunning: ErrorResponse(409, "import_running", "Another file is being imported. Please wait for its end."),
    ImportTooCostly: ErrorResponse(400, "import_too_costly"),
    ImportUnavailable: ErrorResponse(503, "import_unavailable", "Files can't be imported on this server."),
    Busy: ErrorResponse(503, "busy", _BUSY, retry_after=3),
    CreditError: ErrorResponse(400, "invalid_value"),
    PriceConflict: ErrorResponse(409, "price_conflict"),
    MalformedRequest: ErrorResponse(400, "invalid_json"),
    BodyTooLarge: ErrorResponse(413, "request_too_large"),
    BodyTimeout: ErrorResponse(408, "request_timeout"),
    IncompleteBody: ErrorResponse(499, "client_disconnected"),
    UnsupportedMediaType: ErrorResponse(415, "unsupported_media_type"),
    UnknownUrl: ErrorResponse(404, "unknown_url", "There is nothing at this address."),
    MethodNotAllowed: ErrorResponse(405, "method_not_allowed", "This can't be done at this address."),
    Exception: ErrorResponse(500, "internal_error", "Something went wrong here. Please try again."),
}


def response_to(error: Exception) -> ErrorResponse:
    """Return the HTTP status, error code and message for an exception: those of its nearest class in `TABLE`."""
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def error_body(error: Exception) -> dict[str, Any]:
    """Return the JSON response body for an error, in OpenAI's form: `{"error": {message, type, param, code}}`."""
    answer = response_to(error)
    kind = "invalid_request_error" if answer.status < 500 else "server_error"
    param = getattr(error, "param", None)
    return {"error": {"message": answer.message or str(error), "type": kind, "param": param, "code": answer.code}}


def error_headers(error: Exception) -> dict[str, str]:
    """Return an exception's HTTP headers: `Retry-After` in seconds if it, or its class in `TABLE`, has a wait."""
    wait = getattr(error, "wait", None)
    seconds = response_to(error).retry_after if wait is None else int(wait) + 1
    return {} if seconds is None else {"retry-after": str(seconds)}
