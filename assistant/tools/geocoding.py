"""Finds the place that a question names, inflected or in another language too, by a geocoder; caches its answers."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from assistant.tools.folding import folded
from assistant.tools.polish_declension import nominatives
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, NotFound
from assistant.tools.weather_report import Place, WeatherService
from auth_billing.ttl_cache import TtlCache

MAX_NAME_LENGTH = 100
AT_ONCE = 4
"""Candidates that are asked for at the same time."""
LARGE = 100_000
"""Inhabitants of a place whose name is taken as it is written, without trying to decline it."""
UNKNOWN_POPULATION = 10_000
CACHE_SECONDS = 24 * 3600.0
CACHED_NAMES = 2000

_PREPOSITIONS = re.compile(
    r"^(?:w|we|na|nad|pod|przy|koło|dla|do|z|ze|in|at|for|near|around|city of|miasto|mieście)\s+(?=\S)", re.IGNORECASE
)
_UNKNOWN_PLACE = Sentence("There is no place called “{place}”.", "Nie znaleziono miejsca „{place}”.")
_NO_PLACE = Sentence("The question names no place.", "Pytanie nie zawiera nazwy miejsca.")


@dataclass(frozen=True)
class _Match:
    """A place that a candidate found."""

    place: Place
    score: float
    named_so: bool
    """Whether the place's name, or its first words, are the candidate; otherwise the geocoder only resembles them."""
    exact: bool


class PlaceFinder:
    """Finds places at a weather service's geocoder, and remembers what the geocoder answered."""

    def __init__(self, service: WeatherService, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._known: TtlCache[tuple[str, str], tuple[Place, ...]] = TtlCache(CACHE_SECONDS, CACHED_NAMES, clock)

    async def find(self, name: str, language: str) -> Place:
        """Return the place that `name` most likely means, by the weather service's geocoder.

        `name` may be inflected or have more words: "Lądku", "w Nowym Jorku", "Springfield, Illinois".

        Raises:
            InvalidArguments: the name is empty or too long.
            NotFound: there is no such place.
            ToolError: the geocoder does not answer.
        """
        plain, hint = _without_preposition(name)
        literal = await self._literal(plain, hint, language)
        if literal and literal[0].exact and (literal[0].place.population or 0) >= LARGE:
            return literal[0].place
        found = await self._declined(plain, hint) if language == "pl" or not literal else []
        best = max([*found, *(each for each in literal if each.named_so)], key=lambda each: each.score, default=None)
        if best is None:
            best = literal[0] if literal else None
        if best is None:
            raise NotFound(_UNKNOWN_PLACE, place=name)
        return best.place

    async def _literal(self, name: str, hint: str, language: str) -> list[_Match]:
        """Return what the name itself finds, the best match first, in English too: people write "Warsaw" in Polish."""
        languages = list(dict.fromkeys([language, "en"]))
        answers = await asyncio.gather(*(self._ask(name, each) for each in languages))
        english = {(place.latitude, place.longitude): place.names for answer in answers[1:] for place in answer}
        matches = [
            _match(
                name, place, hint, language, rank=0, also=english.get((place.latitude, place.longitude), frozenset())
            )
            for place in answers[0]
        ]
        return sorted(matches, key=lambda each: each.score, reverse=True)

    async def _declined(self, name: str, hint: str) -> list[_Match]:
        """Return the places whose names are nominatives of `name`, of the first few candidates that have any."""
        candidates = nominatives(name)
        for start in range(0, len(candidates), AT_ONCE):
            some = candidates[start : start + AT_ONCE]
            answers = await asyncio.gather(*(self._ask(each, "pl") for each in some))
            matches = [
                match
                for rank, (candidate, places) in enumerate(zip(some, answers, strict=True), start)
                for place in places
                if (match := _match(candidate, place, hint, "pl", rank=rank)).named_so
            ]
            if matches:
                return matches
        return []

    async def _ask(self, name: str, language: str) -> tuple[Place, ...]:
        key = (name.casefold(), language)
        known = self._known.get(key)
        if known is None:
            known = tuple(await self._service.find(name, language))
            self._known.put(key, known)
        return known


def _match(
    candidate: str, place: Place, hint: str, language: str, *, rank: int, also: frozenset[str] = frozenset()
) -> _Match:
    """Return how well a place fits a candidate: larger places, exact names and likelier candidates fit better."""
    names = place.names | also | {place.name}
    wanted = folded(candidate)
    exact = any(folded(each) == wanted for each in names)
    begins = any(folded(each).startswith((f"{wanted} ", f"{wanted}-")) for each in names)
    score = math.log10((place.population if place.population is not None else UNKNOWN_POPULATION) + 1)
    score += 0.7 * exact + 0.3 * any(each.casefold().startswith(candidate.casefold()) for each in names) - 0.25 * rank
    score += 0.5 * (language == "pl" and place.country_code == "PL")
    score += 5.0 * bool(
        hint and any(_fits_hint(hint, each) for each in (place.country, place.country_code, place.region))
    )
    return _Match(place, score, exact or begins, exact)


def _fits_hint(hint: str, text: str) -> bool:
    """Return whether a region or country is the hint, or begins as it does ("Francji", "Francja")."""
    wanted, found = folded(hint), folded(text)
    return bool(found) and (
        wanted == found or (len(wanted) > 4 and len(found) > 4 and wanted[:-2] == found[: len(wanted) - 2])
    )


def _without_preposition(name: str) -> tuple[str, str]:
    """Return a name without its preposition, and the region or country behind a comma."""
    plain, _, hint = " ".join(name.split()).strip(" .?!\"'„“”").partition(",")
    plain = _PREPOSITIONS.sub("", plain).strip()
    if not any(map(str.isalnum, plain)):
        raise InvalidArguments(_NO_PLACE)
    if len(plain) > MAX_NAME_LENGTH:
        raise NotFound(_UNKNOWN_PLACE, place=plain)
    return plain, _PREPOSITIONS.sub("", hint.strip())
