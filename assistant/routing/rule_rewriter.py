"""Rewrites a follow-up question to stand alone by rules: what the question lacks is taken from the turns before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assistant.routing.anaphora import MENTIONED, Reference
from assistant.routing.cue_words import TIME
from assistant.routing.cues import GROUPS
from assistant.routing.entities import (
    last_document,
    last_expression,
    last_person,
    last_place,
    last_result,
    last_thing,
    last_topic,
    lower_case_places,
    places,
    subject,
)
from assistant.routing.follow_ups import ABOUT, LEAD, PLACE_NOUN, is_picture_request, reference_of
from assistant.routing.language import language_of
from assistant.routing.normal_form import MAX_CHARACTERS, cut, plain, without_match
from assistant.turn import Turn

MAX_TURNS = 12
"""Turns before the question that are read, counted from the last."""

_THERE = re.compile(r"\b(?:over |out )?there\b", re.IGNORECASE)
_PLACE_NOUN = re.compile(PLACE_NOUN, re.IGNORECASE)
_TAM = re.compile(
    r"\btam\b|\bw (?:tym|tamtym) (?:samym )?(?:mieście|miejscu|kraju)|\b(?:na|w) tej (?:samej )?(?:wyspie"
    r"|miejscowości)"
    r"|\bw mieście,? o którym (?:\w+ )?(?:rozmawia\w+|mówi\w+)(?: \w+)?",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:he|she|him)\b|\b(?:that|this) (?:man|woman|person|author|writer|painter|scientist|king|queen"
    r"|actor|composer)\b",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"\b(?:his|her|hers|its|their)\b(?= \w)", re.IGNORECASE)
_OBJECT = re.compile(r"\b(?:go|ja|je|jej|jego|jemu|mu|ich|im|nim|nia|niej|niego|nich|nimi|te[nj]?|ta|tego|tym|temu)\b")
"""Polish pronouns that are no subject, in normal form; a question without them lacks its subject."""
_THING = re.compile(
    r"\b(?:it|they|them|these|those)\b|\bthat (?:one|book|film|movie|animal|mountain|river|lake|building|battle"
    r"|war)\b",
    re.IGNORECASE,
)
_THE_NOUN = re.compile(
    r"\b(?:the|that|this|the same) (?!same\b|year\b|first\b|last\b|name\b|most\b)[a-z]+\b(?! (?:of|in)\b)",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(
    r"\b(?:(?:the|that|this)(?: previous| last)? (?:result|answer|expression|function|equation)|it|that|this)\b",
    re.IGNORECASE,
)
_EXPRESSION_PL = re.compile(
    r"\b(?:(?:ten |poprzedni |ostatni )?wynik|tego|te funkcję|tę funkcję|ją|go|to)\b", re.IGNORECASE
)
_ORIGINAL = re.compile(r"\b(?:(?:the|that|this) (?:function|expression|equation)|funkcj\w+|rownani\w+|wyrazeni\w+)\b")
"""Nouns for the expression that was calculated with, not for the result; in normal form."""
_ARITHMETIC = re.compile(
    r"^(?:times|plus|minus|divided?|multiply|multiplied|add|subtract|squared|cubed|to the power"
    r"|razy|dodac|dodaj|odjac|odejmij|podziel\w*|pomnoz\w*|do (?:potegi|kwadratu))\b"
)
"""A fragment that goes on with the last result; in normal form."""
_DOCUMENT = re.compile(r"\b(?:it|there)\b", re.IGNORECASE)
_THAT_DOCUMENT = re.compile(
    r"\b(?:(?:that|this|the same) (?:document|file|contract|report|letter|agreement|policy|paper|text)"
    r"|the (?:document|file))\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    rf"(?:\b(?:on|for|w|we|na) )?(?:\b(?:next|this|the) )?\b(?:{TIME})\b"
    r"(?: (?:rano|wieczorem|morning|evening|afternoon|night))?"
)
"""A phrase of time, in normal form."""
_PREPOSITION = re.compile(r"^(?:in|at|for|near|w|we|na|nad|dla|do|z|ze)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Resolved:
    """A follow-up that rules resolved: the question that stands alone, and the entity that it now names."""

    question: str
    entity: str


def stand_alone(question: str, history: Sequence[Turn]) -> str:
    """Return a question rewritten by rules to need no earlier turn; unchanged if it stands alone or rules fail."""
    resolved = resolve(question, history)
    return question if resolved is None else resolved.question


def resolve(question: str, history: Sequence[Turn]) -> Resolved | None:
    """Rewrite a follow-up question by rules, with the entity that it lacks taken from the turns of `history`.

    `None` if the question stands alone, or the turns do not have what it lacks.
    """
    return _resolve(question, _recent(history)) if len(question) <= MAX_CHARACTERS else None


def is_follow_up(question: str, history: Sequence[Turn]) -> bool:
    """Return whether a question lacks something that only the turns of `history` before it say."""
    return len(question) <= MAX_CHARACTERS and reference_of(question, _recent(history)) is not None


def _resolve(question: str, recent: Sequence[Turn]) -> Resolved | None:
    reference = reference_of(question, recent)
    if reference is None:
        return None
    language = language_of(question, recent)
    if resolved := _with_mentioned(question, reference, recent):
        return resolved
    resolvers: dict[Reference, Callable[[], Resolved | None]] = {
        Reference.PLACE: lambda: _with_place(question, recent, language),
        Reference.EXPRESSION: lambda: _with_expression(question, recent, language),
        Reference.DOCUMENT: lambda: _with_document(question, last_document(recent), language),
        Reference.REQUEST: lambda: _with_request(question, recent),
        Reference.QUESTION: lambda: _with_question(question, recent),
        Reference.PERSON: lambda: _with_topic(question, last_person(recent) or last_thing(recent), language),
        Reference.TOPIC: lambda: _with_topic(question, last_topic(recent) or subject(recent), language),
        Reference.THING: lambda: _with_topic(question, last_thing(recent), language),
    }
    return resolvers[reference]()


def _with_mentioned(question: str, reference: Reference, recent: Sequence[Turn]) -> Resolved | None:
    """Return the question with the name of what it calls, for example, the city we discussed."""
    text = plain(question)
    found = MENTIONED.search(text)
    if found is None or reference in (Reference.EXPRESSION, Reference.DOCUMENT, Reference.REQUEST):
        return None
    place = last_place(recent) if reference is Reference.PLACE else None
    person = last_person(recent) if reference is Reference.PERSON else ""
    entity = place.name if place else person or last_thing(recent)
    if not entity:
        return None
    # The normal form has as many words as the question.
    first, last = text[: found.start()].count(" "), text[: found.end()].count(" ") + 1
    words = question.split()
    end = words[last - 1][len(words[last - 1].rstrip("?.!,")) :]
    return Resolved(" ".join([*words[:first], entity + end.replace(",", ""), *words[last:]]), entity)


def _recent(history: Sequence[Turn]) -> list[Turn]:
    """Return the last turns, cut, with the user's follow-ups rewritten, so that references reach over several turns."""
    done: list[Turn] = []
    for turn in history[-MAX_TURNS:]:
        text = cut(turn.text)
        resolved = _resolve(text, done) if turn.role == "user" else None
        done.append(Turn(turn.role, text if resolved is None else cut(resolved.question)))
    return done


def _with_place(question: str, history: Sequence[Turn], language: str) -> Resolved | None:
    place = last_place(history)
    if place is None:
        return None
    if language == "en":
        if found := _PLACE_NOUN.search(question):
            lead = re.match(r"(?:in|of|about|to) (?=the )", found[0], re.IGNORECASE)
            named = f"{lead[0] if lead else ''}{place.name}"
            return Resolved(_replaced(_PLACE_NOUN, named, question), place.name)
        if _THERE.search(question):
            return Resolved(_replaced(_THERE, f"in {place.name}", question), place.name)
        return Resolved(_append(question, f"in {place.name}"), place.name)
    located = place.phrase if _PREPOSITION.match(place.phrase) and place.phrase[:1] in "wn" else f"w {place.name}"
    if _TAM.search(question):
        return Resolved(_replaced(_TAM, located, question), place.name)
    return Resolved(_append(_without_lead(question), located), place.name)


def _with_topic(question: str, topic: str, language: str) -> Resolved | None:
    if not topic:
        return None
    if language == "en":
        if _POSSESSIVE.search(question):
            return Resolved(_replaced(_POSSESSIVE, f"{topic}'s", question), topic)
        for pattern in (_PERSON, _THING, _THE_NOUN):
            if pattern.search(question):
                return Resolved(_replaced(pattern, topic, question), topic)
        return Resolved(_append(question, f"of {topic}"), topic)
    return Resolved(_polish_with(topic, question), topic)


def _polish_with(topic: str, question: str) -> str:
    """Return a Polish question with its topic: for its pronoun, as its subject at the end, or before it."""
    subject = re.compile(r"\b(?:on|ona|oni)\b")
    if subject.search(question):
        return _replaced(subject, topic, question)
    rest = _without_lead(question)
    return f"{topic}: {rest}" if _OBJECT.search(plain(question)) else _append(rest, topic)


def _with_expression(question: str, history: Sequence[Turn], language: str) -> Resolved:
    fragment = _without_lead(question)
    pattern = _EXPRESSION if language == "en" else _EXPRESSION_PL
    reference = pattern.search(fragment)
    found = _operand(fragment, history, named=reference is not None)
    sums = re.search(r"[\w)]\s*[-+]\s*[\w(]", found) and not found.startswith("(")
    is_number = re.fullmatch(r"[\d.,]+", found)
    operand = f"({found})" if sums or not (reference or is_number) else found
    return Resolved(_replaced(pattern, operand, fragment) if reference else f"{operand} {fragment}", found)


def _operand(fragment: str, history: Sequence[Turn], *, named: bool) -> str:
    """Return the last result where a fragment refers to it, by a pronoun if `named`, else the user's last expression.

    It does not refer to it by a noun for the expression, or by the value of a variable that the result lacks.
    """
    text, result = plain(fragment), last_result(history)
    if not result or _ORIGINAL.search(text) or not (named or _ARITHMETIC.match(text)):
        return last_expression(history)
    value = re.search(r"\b([xyz]) = ", text)
    lacks = value is not None and not re.search(rf"(?<![^\W\d_]){value[1]}(?![^\W\d_])", result)
    return last_expression(history) if lacks else result


def _with_document(question: str, found: str, language: str) -> Resolved:
    if language == "en" and _THAT_DOCUMENT.search(question):
        return Resolved(_replaced(_THAT_DOCUMENT, found, question), found)
    if language == "en" and _DOCUMENT.search(question):
        inside = f"in {found}" if re.search(r"\bthere\b", question, re.IGNORECASE) else found
        return Resolved(_replaced(_DOCUMENT, inside, question), found)
    return Resolved(f"{found}: {_without_lead(question)}", found)


def _with_request(question: str, history: Sequence[Turn]) -> Resolved | None:
    users = [turn.text for turn in history if turn.role == "user"]
    base = next((each for each in reversed(users) if is_picture_request(plain(each))), None)
    if base is None:
        return None
    base = base.rstrip(" .!?")
    return Resolved(f"{base}, {question[:1].lower()}{question[1:]}", base)


def _with_question(question: str, history: Sequence[Turn]) -> Resolved | None:
    before = next((turn.text for turn in reversed(history) if turn.role == "user"), "").rstrip(" ?.!")
    fragment = _without_lead(question).rstrip(" ?.!")
    if not before or not fragment:
        return None
    if _TIME.search(plain(fragment)) and not places(fragment):
        kept = without_match(_TIME, before)
        return Resolved(f"{kept} {fragment}?", kept)
    named = [*places(before), *lower_case_places(before)]
    if named and (places(fragment) or _is_bare_place(fragment, before)):
        phrase = fragment if _PREPOSITION.match(fragment) else f"{named[0].phrase.split()[0]} {fragment}"
        at = before.lower().find(named[0].phrase.lower())
        return Resolved(f"{before[:at]}{phrase}{before[at + len(named[0].phrase) :]}?", fragment)
    topic = last_topic(history)
    if topic and topic in before and fragment[:1].isupper():
        return Resolved(f"{before.replace(topic, fragment)}?", fragment)
    return Resolved(f"{before}, {fragment}?", before)


def _is_bare_place(fragment: str, before: str) -> bool:
    """Return whether a fragment after a question about the weather can be a place: "madrid", but no "in Fahrenheit"."""
    about_weather = GROUPS["weather.word"].search(plain(before)) or GROUPS["weather.sky"].search(plain(before))
    return bool(about_weather) and len(fragment.split()) <= 2 and not _PREPOSITION.match(fragment)


def _append(question: str, words: str) -> str:
    body = question.rstrip(" ?.!")
    return f"{body} {words}{question[len(body) :].strip() or ''}"


def _without_lead(question: str) -> str:
    """Return the question without the words that link it to the turn before."""
    text = plain(question)
    rest = ABOUT.sub("", LEAD.sub("", text))
    # The normal form has as many words as the question.
    words = question.split()
    return " ".join(words[len(words) - len(rest.split()) :])


def _replaced(pattern: re.Pattern[str], text: str, question: str) -> str:
    """Return the question with `text` as it is, which may have backslashes, for the first match."""
    return pattern.sub(lambda _: text, question, count=1)
