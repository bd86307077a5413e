"""Detects whether a question refers to earlier turns, by rules for English and Polish: pronouns, ellipsis, edits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from assistant.routing.cue_words import TIME
from assistant.routing.cues import GROUPS
from assistant.routing.entities import document, expression, last_document, last_expression, names, places
from assistant.routing.language import language_of
from assistant.routing.normal_form import plain
from assistant.turn import Turn

MAX_WORDS = 30
"""Words of a question above which it is taken to stand alone."""


class Reference(StrEnum):
    """What a question lacks to stand alone."""

    PLACE = "place"
    PERSON = "person"
    TOPIC = "topic"
    EXPRESSION = "expression"
    DOCUMENT = "document"
    REQUEST = "request"
    """The request for a picture that it changes."""
    QUESTION = "question"
    """The question of which it replaces a part: "and on Sunday?"."""


LEAD = re.compile(
    r"^(?:(?:ok|okay|thanks|thank you|great|dobrze|dzieki|super|hm+|no(?: to)?|to(?= teraz)|and|or|but|also|so|a"
    r"|i|oraz|albo|now"
    r"|then|teraz)[,.!]? )+"
)
"""Words at the beginning that link a question to the turn before (normal form)."""
ABOUT = re.compile(r"^(?:and |ok |a |no )*(?:what about|how about|what if|a gdyby|co z|a co z|jak z) ")

_ABOUT_THE_ANSWER = re.compile(
    r"^(?:and |a |but |ok |so |now |please |can you |could you |teraz |to )*(?:why|really|are you sure"
    r"|what do you mean|explain|translate|rewrite|rephrase"
    r"|shorten|summari[sz]e|make (?:it|this|that) (?:shorter|longer|simpler|funnier|more formal|formal|clearer)"
    r"|put (?:it|this|that) (?:into|in)"
    r"|say (?:it|that)|repeat|continue|go on|write|how do you know|thanks?\b|thank you|yes\b|no[.!]?$|dlaczego"
    r"|czemu|naprawde|jestes pewn|skad wiesz|co masz na mysli"
    r"|wytlumacz|wyjasnij|przetlumacz|napisz|streszcz|skroc|powtorz|kontynuuj|dziek|super|swietnie|tak[.!,]?$"
    r"|nie[.!]?$|krocej|podaj przyklad)"
)
"""Requests about the answer itself: the answering model has the conversation, and no tool is needed."""
_PICTURE_EDIT = re.compile(
    r"^(?:and |ok |now |please |can you |could you |a |no |teraz |to |prosze |jeszcze )*(?:add|remove|make it"
    r"|make the|change|replace|again|the same|same|darker|brighter"
    r"|with(?:out)?|in (?:the style|black|watercolou?r|colou?r)|but|bigger|smaller|redo|try|draw (?:it|them|that"
    r"|him|her)|paint (?:it|them)|dodaj|dorysuj|domaluj|usun|zmien|zamien"
    r"|zrob (?:go|ja|je|to|z)|bez|w stylu|jeszcze raz|to samo|ten sam|ta sama|ciemniej|jasniej|wiek|mniejsz"
    r"|(?:narysuj|namaluj) (?:to|go|ja|je|ich)\b|popraw|tym razem|now in|at night)"
)
_THERE = re.compile(
    r"(?<!is )(?<!are )(?<!was )(?<!were )(?<!be )\b(?:over |out )?there\b(?! (?:is|are|was|were|will|has|have"
    r"|been|would|any|a|an|no)\b)|\b(?:tam|stamtad|tamtejsz\w+)\b(?! i z powrotem)"
)
PLACE_NOUN = (
    r"\b(?:that|this|the same) (?:city|town|village|place|country|island|region|capital)\b"
    r"|\bthe (?:\w+ )?(?:city|town|village|place|country|island|region|capital|one) (?:that |which )?(?:(?:we|you"
    r"|i)(?:'ve| have| had)? (?:just |were )?(?:discussed|mentioned|talked about|talking about|spoke about"
    r"|asked about|said|named)(?: earlier| before)?|(?:from|mentioned|named|discussed) (?:earlier|before|above))"
)
"""A noun phrase for a place that was named before: "that city", "the city we discussed"."""
_PLACE_NOUN = re.compile(
    rf"{PLACE_NOUN}"
    r"|\b(?:w |z |do |o )?(?:tym|tego|tej|ta|to|tamtym|tamtej) (?:samym |samej )?(?:miescie|miasta|miasto|miejscu"
    r"|miejsca|kraju|wyspie|wyspy|miejscowosci|regionie)\b"
    r"|\b(?:w |we |o )?(?:miescie|miasta|miejscu|kraju),? o (?:ktorym|ktorej) (?:\w+ )?(?:rozmawial\w+|mowil\w+"
    r"|wspomnial\w+)(?: \w+)?"
)
_WITHOUT_NOUN = re.compile(
    r"\b(?:the|a|this|that|my|our) (?:city|town|place|country|island) (?:of|in|where|with|that|which)\b"
)
_PERSON = re.compile(
    r"\b(?:he|she|his|her|him|hers)\b|\b(?:that|this|the same) (?:man|woman|person|author|writer|painter"
    r"|scientist|king|queen|actor|composer)\b"
)
_PERSON_PL = re.compile(
    r"\b(?:on|ona|jego|jemu|jej|niego|niej|nim)\b|\b(?:ten|ta|tego|tej|tym) (?:pisarz\w*"
    r"|pisark\w+|autor\w*|naukowiec|naukowca|krol\w*|malarz\w*|poet\w+|kompozytor\w*|osob\w+|postac\w*)\b"
)
_THING = re.compile(
    r"\b(?:its|them|they|their|those|these)\b|\bit\b|\b(?:about|of|is|was|does|did|like|from|with|for|to|call"
    r"|called) (?:this|that)\b(?! \w)|\bthat (?:one|book|film|movie|animal|mountain|river|lake|building|battle"
    r"|war|event|theory)\b"
    r"|\bthe same (?:thing|one|book|film)\b"
)
_THING_PL = re.compile(
    r"\b(?:ich|im|nich|nimi|nia|one|oni|go|ja(?= (?:napis|zbud|odkr|namal|zal|wyna|wymy|skomp"
    r"|nazw))|je(?= (?:napis|zbud|odkr|namal|zal|wyna|wymy))|tego|temu)\b"
    r"|\b(?:ta|tej|ten|tego|te|tym|to) (?:ksiazk\w+|film\w*|gor\w+|rzek\w+|jezior\w+|zwierze\w*|budyn\w+|bitw\w+"
    r"|wojn\w+|teori\w+|zam(?:ek|ku)|obraz\w*|powiesc\w*)\b"
)
_EXPLETIVE = re.compile(
    r"\b(?:is|was|will|would|does|did|if|whether|how|and|that|because|when|could|might|can|should|so|has|make"
    r"|makes|find|think|like|what's|what time is|) ?it(?:'s|'ll)?"
    r"(?: (?:is|was|will|be|going|gonna|to|get|getting|still|really|too|very|ever|always|already|so|not|currently"
    r"|supposed|likely|just|has|been))*"
    r" (?:rain\w*|snow\w*|cold\w*|hot\w*|warm\w*|sunny|windy|cloudy|dry|wet|freez\w*|foggy|humid|chilly|pour\w*"
    r"|storm\w*|hail\w*|take\w*|possible|true|safe|better|best|worth|normal|ok|okay|legal|hard|easy|difficult"
    r"|important|mean\w*|cost\w*|called|like|time|that|late|early|nice|good|bad|\d\w*)\b"
    r"|\bwhat (?:time|day) is it\b|\bhow is it going\b|\bhow does it feel to\b|\b(?:rain|snow|drizzle"
    r"|hail)\b.{0,12}\bit\b|\bwhat is it like\b|\bwhat's it like\b"
)
_EXPRESSION_REFERENCE = re.compile(
    r"\b(?:it|that|this|them|the (?:result|answer|expression|function|equation|same)|z tego|to|tego|temu|wynik\w*"
    r"|te funkcje|tej funkcji|ja|go|te|jej|jego)\b"
)
_OPERATION = re.compile(
    r"\b(?:integrate|differentiate|derivative|simplify|factor|expand|plot|graph|solve|square|squared|cubed|root"
    r"|divided?|times|multipl\w+|plus|minus|add|subtract|half|double|percent"
    r"|evaluate|percentage|doubled|halved|tripled|scalkuj|calk\w+|pochodn\w+|zrozniczkuj|upros\w+|rozloz\w*"
    r"|narysuj|wykres\w*|podziel\w*|pomnoz\w*|razy|dodac|dodaj|odejmij|odjac|polow\w+|kwadrat\w*|pierwiast\w+"
    r"|poteg\w*|policz|oblicz|rozwiaz)\b"
)
_DOCUMENT_REFERENCE = re.compile(
    r"\b(?:it|there|that|this|they|tam|w nim|w niej|z niego|z niej|tego|nim|niej|jego|jej|go|ja|which page|what page"
    r"|na ktorej stronie|ktora to strona|ktora strona|jaki paragraf)\b"
)
_RELATION = re.compile(
    r"\b(?:population|capital|currency|area|height|length|author|director|founder|president|mayor"
    r"|official language|size|birthplace|wife|husband|children|inhabitants|people live|populacj\w+|ludnosc\w*"
    r"|mieszkancow"
    r"|stolic\w+|walut\w+|powierzchni\w+|wysokosc\w*|dlugosc\w*|autor\w*|rezyser\w*|zalozyciel\w*|prezydent\w*"
    r"|burmistrz\w*|jezyk\w*|zon[aey]|maz\b|meza|dzieci|lat)\b"
)
_QUESTION_WORD = re.compile(
    r"^(?:in |at |from |since |w |z |od |do |o |na |za )?(?:who|whose|what|when|where|which|how|why|is|are|was"
    r"|were|did|does|do|will|can|could|should|has|have|kto|kim|kogo|komu|czym|co|kiedy|gdzie|jak\w*|ile|ilu"
    r"|czy\w*|skad|dokad|ktor\w+|ktorym|dlaczego"
    r"|tell|show|give|draw|paint|find|search|look|compare|calculate|compute|solve|write|narysuj|namaluj|podaj"
    r"|oblicz|policz|opowiedz|znajdz|sprawdz|pokaz|napisz|rozwiaz)\b"
)
_SUBJECTLESS = re.compile(
    r"^(?:kiedy|gdzie|ile|jak\w*|skad|co|czy|z kim|dlaczego|w (?:ktorym|jakim) roku|na co|z czego|ilu"
    r"|do kiedy) (?:\w+ ){0,2}?(?:(?:sie |wtedy |go |ja |je |tez |jeszcze |juz )*)"
    r"(?:\w{2,}(?:l|la|lo|li|ly)|jest|sa|ma|maja|lezy|zyje|zyja|mieszka|zyl|nazywa|je|jedza|wazy|kosztuje|liczy"
    r"|znaczy|oznacza|trwa|pochodzi)\b(?P<rest>.*)$"
)
_FILLER_WORDS = """
sie wtedy lat lata roku rok dzieci zone meza studia mieszkancow ludnosci dokladnie jeszcze tez potem juz
wlasciwie go ja je dlugo metrow kilometrow pochowany pochowana pochowane zbudowany zbudowana zbudowane znany
znana najbardziej wysoki wysoka wysokie stary stara stare duzy duza duze dlugi dluga dlugie gleboki glebokie
nagrode nagrody nobla urodzony urodzona slawny slawna zonaty mezatka na co z czego czym kim rodzenstwo to bylo
miala mial byl byla glebokosci wysokosci dlugosci szerokosci powierzchni pieter pietr stron odcinkow sezonow
czlonkow pracownikow metry
"""
_FILLERS = frozenset(_FILLER_WORDS.split())
_PREPOSITION = re.compile(r"^(?:in|at|for|near|w|we|na|nad|dla)\b")
_OTHER_SUBJECTS = ("none.", "documents.", "image.", "wikipedia.fact", "math.symbol")
_INNER = re.compile(r"\b(?:an?|my|our|your|some|every|each|moj\w*|nasz\w*|twoj\w*|pewn\w+) [\w-]+(?: [\w-]+){0,2}")
_TIME_ONLY = re.compile(
    rf"^(?:(?:and|a|or|albo|for|on|in|the|w|we|na|next|this|po|za) )*(?:{TIME})"
    r"(?: (?:morning|evening|afternoon|night|rano|wieczorem|week|month|tydzien|noc))*[?.!]*$"
)


def reference_of(question: str, history: Sequence[Turn]) -> Reference | None:
    """Return what a question lacks to stand alone after `history`; `None` if it stands alone."""
    users = [turn.text for turn in history if turn.role == "user"]
    text = plain(question).replace('"', "")
    if not users or not text or len(text.split()) > MAX_WORDS:
        return None
    last = plain(users[-1])
    if _changes_picture(question, text, history):
        return Reference.REQUEST
    if _ABOUT_THE_ANSWER.match(text):
        return None
    return (
        _of_expression(question, text, last, history)
        or _of_document(question, text, history)
        or _of_place(question, text, users)
        or _of_pronoun(question, text)
        or _of_ellipsis(question, text, last)
    )


def is_picture_request(text: str) -> bool:
    """Return whether a text in normal form asks for a picture."""
    return bool(
        GROUPS["image.first"].search(text) or GROUPS["image.make"].search(text) or GROUPS["image.style"].search(text)
    )


def _changes_picture(question: str, text: str, history: Sequence[Turn]) -> bool:
    users = [plain(turn.text) for turn in history if turn.role == "user"]
    if not (
        is_picture_request(users[-1])
        or (len(users) > 1 and _PICTURE_EDIT.match(users[-1]) and is_picture_request(users[-2]))
    ):
        return False
    if GROUPS["math.symbol"].search(users[-1]) or len(text.split()) > 16:
        return False
    fragment = LEAD.sub("", text)
    styled = GROUPS["image.style"].search(text) is not None and not GROUPS["image.first"].search(text)
    return bool(_PICTURE_EDIT.match(text)) or (fragment != text and styled and len(text.split()) <= 8)


def _of_expression(question: str, text: str, last: str, history: Sequence[Turn]) -> Reference | None:
    asks = GROUPS["math.word"].search(last) or GROUPS["math.symbol"].search(last)
    if not asks or not _OPERATION.search(text) or not last_expression(history):
        return None
    own = expression(question)
    if re.search(r"[xyz]", own) or re.search(r"\d\s*[-+*/^]\s*\d", own) or len(re.findall(r"\d+", question)) > 1:
        return None
    linked = LEAD.match(text) or ABOUT.match(text) or _EXPRESSION_REFERENCE.search(text)
    return Reference.EXPRESSION if linked and not names(question) else None


def _of_document(question: str, text: str, history: Sequence[Turn]) -> Reference | None:
    users = [turn.text for turn in history if turn.role == "user"]
    if document(question) or not document(users[-1]) or not last_document(history):
        return None
    if not (GROUPS["documents.own"].search(plain(users[-1])) or GROUPS["documents.word"].search(plain(users[-1]))):
        return None
    linked = _DOCUMENT_REFERENCE.search(text) or (ABOUT.match(text) and len(text.split()) <= 8)
    return Reference.DOCUMENT if linked and not names(question) else None


def _of_place(question: str, text: str, users: Sequence[str]) -> Reference | None:
    if document(question) or GROUPS["documents.own"].search(text):
        return None
    there = _THERE.search(text)
    if there and not _names_before(question, text, there.start()):
        return Reference.PLACE
    if _PLACE_NOUN.search(text) and not _WITHOUT_NOUN.search(text):
        return Reference.PLACE
    if _TIME_ONLY.match(text) or ABOUT.match(text):
        return None
    asked_before = any(_about_weather(plain(each)) for each in users)
    return Reference.PLACE if asked_before and _is_forecast_without_place(question, text) else None


def _is_forecast_without_place(question: str, text: str) -> bool:
    """Return whether a question asks for the weather, for nothing else, and names no place."""
    others = (each for name, each in GROUPS.items() if name != "none.advice" and name.startswith(_OTHER_SUBJECTS))
    if '"' in question or not _about_weather(text) or any(each.search(text) for each in others):
        return False
    return bool(_QUESTION_WORD.match(LEAD.sub("", text))) and not places(question) and len(text.split()) <= 9


def _about_weather(text: str) -> bool:
    return any(GROUPS[group].search(text) for group in ("weather.word", "weather.sky", "weather.clothes"))


def _of_pronoun(question: str, text: str) -> Reference | None:
    polish = language_of(question) == "pl"
    persons, things = (_PERSON_PL, _THING_PL) if polish else (_PERSON, _THING)
    for pattern, reference in ((persons, Reference.PERSON), (things, Reference.TOPIC)):
        for match in pattern.finditer(text):
            if match[0] == "it" and (_EXPLETIVE.search(text) or _about_weather(text)):
                continue
            if not _has_antecedent(question, text, match.start()):
                return reference
    return None


def _has_antecedent(question: str, text: str, position: int) -> bool:
    """Return whether the question itself names, before the pronoun at `position`, what the pronoun refers to."""
    before = text[:position]
    if _names_before(question, text, position) or _INNER.search(before) or re.search(r"\d", before):
        return True
    clauses = re.split(r"[.?!:;,]", before)
    return any(len(clause.split()) >= 3 for clause in clauses[:-1])


def _names_before(question: str, text: str, position: int) -> bool:
    """Return whether a name precedes the pronoun, which then refers to that name."""
    return any(0 <= text.find(plain(name)) < position for name in names(question))


def _of_ellipsis(question: str, text: str, last: str) -> Reference | None:
    fragment = ABOUT.sub("", LEAD.sub("", text))
    linked = fragment != text
    words = len(fragment.split())
    if not names(question) and _is_relational(fragment, linked):
        return Reference.TOPIC
    if _QUESTION_WORD.match(fragment):
        subjectless = _SUBJECTLESS.match(fragment.rstrip("?. ")) if language_of(question) == "pl" or linked else None
        if subjectless and words <= 7 and not names(question) and not expression(question):
            rest = [word for word in re.findall(r"\w+", subjectless["rest"]) if word not in _FILLERS]
            return Reference.TOPIC if not rest else None
        return None
    if linked and words <= 6 and GROUPS["image.first"].search(fragment) is None:
        return Reference.QUESTION if _about_tool(last) else None
    if _TIME_ONLY.match(text) and _about_weather(last):
        return Reference.QUESTION
    is_place = places(question) and words <= 3 and _PREPOSITION.match(text)
    return Reference.QUESTION if is_place and _about_weather(last) else None


def _is_relational(fragment: str, linked: bool) -> bool:
    match = _RELATION.search(fragment)
    if match is None or len(fragment.split()) > 6:
        return False
    after = fragment[match.end() :].strip(" ?.")
    asked = re.match(r"(?:what|who|how many|jak\w+|ile|kto|kim)\b", fragment)
    return not after and bool(asked or (linked and len(fragment.split()) <= 3))


def _about_tool(text: str) -> bool:
    groups = ("wikipedia.question", "wikipedia.fact", "math.word", "math.symbol", "documents.own", "image.first")
    return _about_weather(text) or any(GROUPS[group].search(text) for group in groups)
