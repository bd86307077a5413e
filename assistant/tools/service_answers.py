"""Sends tools' GET requests to outside services, checks the JSON answers' types, and raises tool errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from assistant.tools.http_client import HttpClient
from assistant.tools.sentences import Sentence
from assistant.tools.tool import Refused, Unavailable

T = TypeVar("T")

_BAD_ANSWER = Sentence(
    "{service} answered in a form that can't be read.",
    "Usługa {service} odpowiedziała w postaci, której nie można odczytać.",
)
_BUSY = Sentence(
    "{service} accepts no more questions for now. Please try again later.",
    "Usługa {service} chwilowo nie przyjmuje więcej pytań. Spróbuj ponownie później.",
)
_KEY_REFUSED = Sentence(
    "{service} refuses this installation's key. Its operator has to check it.",
    "Usługa {service} odrzuca klucz tej instalacji. Musi go sprawdzić jej operator.",
)
_FAILED = Sentence(
    "{service} does not answer at the moment (status {status}).",
    "Usługa {service} chwilowo nie odpowiada (status {status}).",
)


async def ask(http: HttpClient, service: str, url: str, parameters: Mapping[str, str], answer: type[T]) -> T:
    """Send a GET request to an outside service and return its JSON answer as an object of the type `answer`.

    `service` is the service's name in error messages.

    Raises:
        Refused: the service refuses this installation's key.
        Unavailable: the service fails, has no capacity, or answers in another form.
    """
    status, value = await http.fetch_json(url, parameters)
    if status in (401, 403):
        raise Refused(_KEY_REFUSED, service=service)
    if status == 429:
        raise Unavailable(_BUSY, service=service)
    if status != 200:
        raise Unavailable(_FAILED, service=service, status=status)
    try:
        return msgspec.convert(value, answer)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unavailable(_BAD_ANSWER, service=service) from error
