"""Detects what a question lacks from earlier turns (a person, a place, ...), by rules for English and Polish."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assistant.routing.anaphora import (
    CLAUSE_END,
    EXPLETIVE,
    EXTRAPOSED,
    OF_THING,
    PERSON_NOUN,
    PLURAL_SUBJECT,
    POINTS,
    THAT_DOCUMENT,
    THING_NOUN,
    Reference,
    demonstrative,
    mentioned,
)
from assistant.routing.cue_words import TIME
from assistant.routing.cues import GROUPS
from assistant.routing.entities import document, expression, last_document, last_expression, names, places
from assistant.routing.language import language_of
from assistant.routing.normal_form import plain
from assistant.turn import Turn

MAX_WORDS = 30
"""Words of a question above which it is taken to stand alone."""

LEAD = re.compile(
    r"^(?:(?:ok|okay|thanks|thank you|great|nice|perfect|cool|lovely|dobrze|dzieki|super|swietnie|fajnie|ladnie|hm+"
    r"|no(?: to)?|to(?= teraz)|and|or|but|also|so|a"
    r"|i|oraz|albo|now"
    r"|then|teraz)[,.!]? )+"
)
"""Words at the beginning that link a question to the turn before (normal form)."""
ABOUT = re.compile(
    r"^(?:and |ok |a |no )*(?:what about|how about|what if|a gdyby|co z|a co z|jak z|jak(?= (?:w|we|na|u) )"
    r"|(?:the )?same (?:question|thing),?(?: but)?|(?:the )?same(?= (?:for|in|at) )|(?:the )?same,? but"
    r"|(?:to|o) samo(?: pytanie)?,?"
    r" (?:ale|tylko|lecz|dla)"
    r"|(?:(?:sorry|no|przepraszam|nie),? )?(?:i (?:meant|mean)|chodzilo mi o|mial[ea]m na mysli)) "
)

_ABOUT_THE_ANSWER = re.compile(
    r"^(?:and |a |but |ok |so |now |please |can you |could you |teraz |to )*(?:(?:why|dlaczego|czemu)(?: (?:not|so"
    r"|nie|tak|is that|do you)\b.*|[?.! ]*$)|really|are you sure"
    r"|what do you mean|explain|translate|rewrite|rephrase"
    r"|shorten|summari[sz]e|make (?:it|this|that) (?:shorter|longer|simpler|funnier|more formal|formal|clearer)"
    r"|put (?:it|this|that) (?:into|in)"
    r"|say (?:it|that)|repeat|continue|go on|write|how do you know|thanks?\b|thank you|yes\b|no[.!]?$"
    r"|naprawde|jestes pewn|skad wiesz|co masz na mysli"
    r"|wytlumacz|wyjasnij|przetlumacz|napisz|streszcz|skroc|powtorz|kontynuuj|dziek|super|swietnie|tak[.!,]?$"
    r"|nie[.!]?$|krocej|podaj przyklad)"
)
"""Requests about the answer itself: the answering model has the conversation, and no tool is needed."""
_PICTURE_EDIT = re.compile(
    r"^(?:and |ok |now |please |can you |could you |i'd like you to |i want you to |a |no |teraz |to |prosze "
    r"|jeszcze |czy |mozesz "
    r"|moglbys |moglabys |chce,? zebys |chcialbym,? zebys )*(?:add|remove|make it|give (?:it|him|her|them)|turn it"
    r"|put (?:it|a|some)"
    r"|let it|use|less|more|niech|another|one more|jeszcze jed\w+|kolejn\w+|a bit|a little|slightly|much|even|troche"
    r"|bardziej|ze? (?!wikip)\w+|i'd (?:prefer|like|rather have) (?:it|him|her|them)|can (?:it|he|she|they) (?:be|have)"
    r"|wolal(?:bym|abym) (?:go|ja|je|to)|zrobic (?:go|ja|je|to)|zmienic|dodac|usunac|pomaluj|zmniejsz|powieksz"
    r"|przerob|make (?:him|her|them)"
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
    r"\b(?:in |of |about |to )?the (?:city|capital|town|country|island|region|village)"
    r"(?= (?:right now|now|at the moment|today|tomorrow|tonight|this|on|next|at|by)\b|[?.!]*$)"
    r"|\b(?:that|this|the same) (?:capital|city|town|village|place|country|island|region|capital)\b"
    r"|\bthe (?:\w+ )?(?:city|town|village|place|country|island|region|capital|one) (?:that |which )?(?:(?:we|you"
    r"|i)(?:'ve| have| had)? (?:just |were )?(?:discussed|mentioned|talked about|talking about|spoke about"
    r"|asked about|said|named)(?: earlier| before)?|(?:from|mentioned|named|discussed) (?:earlier|before|above))"
)
"""A noun phrase for a place that was named before: "that city", "the city we discussed"."""
_PLACE_NOUN = re.compile(
    rf"{PLACE_NOUN}"
    r"|\b(?:w|o|z|do) (?:tej )?stolicy(?=[?.!]*$| (?:teraz|jutro|dzis\w*|obecnie))"
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
    r"\b(?:its|them|they|their|those|these)\b|\bit\b(?!-)|\b(?:about|of|is|was|does|did|like|from|with|for|to|call"
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
_EXPRESSION_REFERENCE = re.compile(
    r"\b(?:it|that|this|them|the (?:result|answer|expression|function|equation|same)|z tego|to|tego|temu|wynik\w*"
    r"|te funkcje|tej funkcji|ja|go|te|jej|jego)\b"
)
_OPERATION = re.compile(
    r"\b(?:limit|granic\w*|wartosc\w*|value|integrate|differentiate|derivative|simplify|factor|expand|plot|graph"
    r"|solve|square|squared|cubed|root"
    r"|divided?|times|multipl\w+|plus|minus|add|subtract|half|double|percent"
    r"|evaluate|percentage|doubled|halved|tripled|scalkuj|calk\w+|pochodn\w+|zrozniczkuj|upros\w+|rozloz\w*"
    r"|narysuj|wykres\w*|podziel\w*|pomnoz\w*|razy|dodac|dodaj|odejmij|odjac|polow\w+|kwadrat\w*|pierwiast\w+"
    r"|poteg\w*|policz|oblicz|rozwiaz)\b"
)
_VALUE = re.compile(r"\b[xyz] = -?\d+(?:[.,]\d+)?")
"""A value of a variable, for which the expression of an earlier turn is evaluated."""
_DOCUMENT_SAYS = re.compile(
    r"^(?:co|jak\w+|ile|kogo|kto) (?:\w+ ){0,3}(?:wymienia|podaje|zawiera|okresla|przewiduje|wspomina|stanowi"
    r"|opisuje)\W*$"
)
_CONTINUES = re.compile(
    r"^(?:times|plus|minus|divided by|multiplied by|razy|dodac|odjac|podzielic|podzielone przez|do (?:potegi|kwadratu)"
    r"|to the power|squared|from \S+ to|od \S+ do|(?:w granicach|na przedziale) od) ?[-\w. ]{0,30}[?.!]*$"
)
"""The rest of a calculation whose beginning is an expression of an earlier turn."""
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
    r"^(?:in |at |from |since |w |z |od |do |o |na |za |po |przy |przez |dla |pod |nad )?"
    r"(?:who|whose|what|when|where|which|how|why|is|are|was"
    r"|were|did|does|do|will|can|could|should|has|have|kto|kim|kogo|komu|czym|co|kiedy|gdzie|jak\w*|ile|ilu"
    r"|czy\w*|skad|dokad|ktor\w+|ktorym|dlaczego"
    r"|tell|show|give|draw|paint|find|search|look|compare|calculate|compute|solve|write|narysuj|namaluj|podaj"
    r"|oblicz|policz|opowiedz|znajdz|sprawdz|pokaz|napisz|rozwiaz)\b"
)
_SUBJECTLESS = re.compile(
    r"^(?:(?:z|ze|w|na|do|od|za|o|po|przy|dla|przez|przed) )?(?:kiedy|gdzie|ile|ilu|jak\w*|skad|dokad|co|czy|kim"
    r"|czym|czego"
    r"|kogo|komu|dlaczego|ktor\w+) (?:(?!sie )\w+ ){0,2}?(?:(?:sie |wtedy |go |ja |je |tez |jeszcze |juz )*)"
    r"(?:\w{2,}(?:l|la|lo|li|ly|uje|uja|ywa|ywaja|iwa|odzi|odza|ezy|eza|aje|aja|eje|eja|yje|yja)|stoi|przestanie"
    r"|minie|ustanie|jest|sa|ma|maja|lezy|graniczy|zyje|zyja|mieszka|zyl|nazywa|je|jedza|wazy|kosztuje|liczy"
    r"|znaczy|oznacza|trwa|pochodzi)\b(?P<rest>.*)$"
)
_FILLER_WORDS = """
i kiedy gdzie zmarl zmarla umarl umarla urodzil urodzila
sie wtedy lat lata roku rok dzieci zone meza studia mieszkancow ludnosci dokladnie jeszcze tez potem juz
wlasciwie go ja je dlugo metrow kilometrow pochowany pochowana pochowane zbudowany zbudowana zbudowane znany
znana najbardziej wysoki wysoka wysokie stary stara stare duzy duza duze dlugi dluga dlugie gleboki glebokie
nagrode nagrody nobla urodzony urodzona slawny slawna zonaty mezatka na co z czego czym kim rodzenstwo to bylo
miala mial byl byla glebokosci wysokosci dlugosci szerokosci powierzchni pieter pietr stron odcinkow sezonow
czlonkow pracownikow metry
"""
_FILLERS = frozenset(_FILLER_WORDS.split())
_PREPOSITION = re.compile(r"^(?:in|at|for|near|w|we|na|nad|dla)\b")
_UNITS = re.compile(r"\b(?:fahrenheit\w*|celsius|celsj\w+|kelvin\w*)\b")
_NOUN_FIRST = re.compile(
    r"^(?:jak\w+|ktor\w+|ile|ilu) \w+ (?:\w+ )?\w+(?:uje|uja|ywa|ywaja|iwa|odzi|odza|ezy|eza|aje|aja|eje|eja|yje|yja)\b"
)
"""A question whose noun may be the subject of its verb."""
_PREPOSITIONS = frozenset(
    ["z", "ze", "w", "we", "na", "do", "od", "za", "o", "po", "przy", "dla", "przez", "przed", "nad", "pod", "u", "bez"]
)
_OBLIQUE = ("ą", "ę", "ego", "ej", "emu", "ych", "ymi", "iem", "em", "ami", "ów", "owi", "ach", "om")
"""Endings that no subject of a Polish sentence has."""
_ADJECTIVE = ("ego", "ej", "emu", "ych", "ymi", "ą")
_OTHER_SUBJECTS = ("none.", "documents.", "image.", "wikipedia.fact", "math.symbol")
_INNER = re.compile(
    r"\b(?:an?|my|our|your|some(?! of)|every|each|moj\w*|nasz\w*|twoj\w*|pewn\w+) [\w-]+(?: [\w-]+){0,2}"
)
_TIME_ONLY = re.compile(
    rf"^(?:(?:and|a|or|albo|for|on|in|the|w|we|na|next|this|po|za) )*(?:{TIME})"
    r"(?: (?:morning|evening|afternoon|night|rano|wieczorem|week|month|tydzien|noc))*[?.!]*$"
)


def reference_of(question: str, history: Sequence[Turn]) -> Reference | None:
    """Return which kind of entity of `history` a question lacks to stand alone; `None` if the question stands alone."""
    users = [turn.text for turn in history if turn.role == "user"]
    text = plain(question).replace('"', "")
    if not users or not text or len(text.split()) > MAX_WORDS:
        return None
    last = plain(users[-1])
    pictures = any(is_picture_request(plain(each)) for each in users)
    if reference := mentioned(text, history, pictures=pictures):
        return reference
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
    """Return whether a user's text, in normal form, asks for a picture to be drawn or changed."""
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
    return bool(_PICTURE_EDIT.match(text) or _PICTURE_EDIT.match(fragment)) or (
        fragment != text and styled and len(text.split()) <= 8
    )


def _of_expression(question: str, text: str, last: str, history: Sequence[Turn]) -> Reference | None:
    asks = GROUPS["math.word"].search(last) or GROUPS["math.symbol"].search(last)
    value = _VALUE.search(text) or _CONTINUES.match(text)
    if not asks or not (value or _OPERATION.search(text)) or not last_expression(history):
        return None
    own = expression(_VALUE.sub("", question))
    if (
        (not _CONTINUES.match(text) and re.search(r"[xyz]", own))
        or re.search(r"\d\s*[-+*/^]\s*\d", own)
        or len(re.findall(r"\d+", question)) > 1
    ):
        return None
    linked = value or LEAD.match(text) or ABOUT.match(text) or _EXPRESSION_REFERENCE.search(text)
    return Reference.EXPRESSION if linked and not names(question) else None


def _of_document(question: str, text: str, history: Sequence[Turn]) -> Reference | None:
    users = [turn.text for turn in history if turn.role == "user"]
    if not document(users[-1]) or not last_document(history):
        return None
    if THAT_DOCUMENT.search(text):
        return Reference.DOCUMENT
    if document(question):
        return None
    if not (GROUPS["documents.own"].search(plain(users[-1])) or GROUPS["documents.word"].search(plain(users[-1]))):
        return None
    linked = _DOCUMENT_REFERENCE.search(text) or (ABOUT.match(text) and len(text.split()) <= 8)
    linked = linked or (LEAD.match(text) and len(text.split()) <= 5) or _DOCUMENT_SAYS.search(text)
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
    asked_before = any(_about_weather(plain(each)) for each in users) or bool(places(users[-1]))
    return Reference.PLACE if asked_before and _is_forecast_without_place(question, text) else None


def _is_forecast_without_place(question: str, text: str) -> bool:
    """Return whether a question asks for the weather, for nothing else, and names no place."""
    others = (each for name, each in GROUPS.items() if name != "none.advice" and name.startswith(_OTHER_SUBJECTS))
    if '"' in question or not _about_weather(text) or any(each.search(text) for each in others):
        return False
    asks = _QUESTION_WORD.match(LEAD.sub("", text)) or language_of(question) == "pl" or text.endswith("?")
    return bool(asks) and not places(question) and not names(question) and len(text.split()) <= 9


def _about_weather(text: str) -> bool:
    return any(GROUPS[group].search(text) for group in ("weather.word", "weather.sky", "weather.clothes"))


def _of_pronoun(question: str, text: str) -> Reference | None:
    polish = language_of(question) == "pl"
    persons, things = (_PERSON_PL, _THING_PL) if polish else (_PERSON, _THING)
    if OF_THING.search(text):
        return Reference.THING
    for pattern, reference in ((PERSON_NOUN, Reference.PERSON), (THING_NOUN, Reference.THING)):
        noun = pattern.search(text)
        if noun and not names(question) and (POINTS.match(noun[0]) or not _INNER.search(text)):
            return reference
    pointed = demonstrative(text)
    if pointed and not names(question) and not _INNER.search(text):
        return pointed
    for pattern, reference in ((persons, Reference.PERSON), (things, Reference.THING)):
        for match in pattern.finditer(text):
            if match[0] in ("it", "is that", "was that") and EXTRAPOSED.search(text):
                continue
            if match[0] in ("their", "they", "them") and PLURAL_SUBJECT.search(text[: match.start()]):
                continue
            if match[0] == "it" and (EXPLETIVE.search(text) or _about_weather(text)):
                continue
            if not _has_antecedent(question, text, match.start()):
                return reference
    return None


def _has_antecedent(question: str, text: str, position: int) -> bool:
    """Return whether the question itself names, before the pronoun at `position`, what the pronoun refers to."""
    before = re.sub(r"\b(?:an?|some) (?:[\w-]+ ){1,3}(?:of|about|like|for|with) $", "", text[:position])
    if _names_before(question, text, position) or _INNER.search(before) or re.search(r"\d", before):
        return True
    clauses = CLAUSE_END.split(before)
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
    if _UNITS.search(text) and words <= 7 and _about_weather(last):
        return Reference.QUESTION
    if _QUESTION_WORD.match(fragment):
        polish = language_of(question) == "pl" or linked
        return Reference.TOPIC if polish and words <= 7 and _lacks_subject(question, fragment) else None
    if linked and words <= 6 and GROUPS["image.first"].search(fragment) is None:
        return Reference.QUESTION if _about_tool(last) else None
    if _TIME_ONLY.match(text) and _about_weather(last):
        return Reference.QUESTION
    is_place = places(question) and words <= 3 and _PREPOSITION.match(text)
    return Reference.QUESTION if is_place and _about_weather(last) else None


def _lacks_subject(question: str, fragment: str) -> bool:
    """Return whether a Polish question has a verb without subject: "kiedy umarł?"."""
    found = _SUBJECTLESS.match(fragment.rstrip("?. "))
    if found is None or "," in found["rest"] or _NOUN_FIRST.match(fragment) or expression(question):
        return False
    named = any(plain(each) not in _FILLERS for each in names(question))
    return not named and not _has_subject(question, found["rest"])


def _has_subject(question: str, rest: str) -> bool:
    """Return whether a word after the verb may be its subject: neither in an oblique case nor after a preposition."""
    words = question.split()[len(question.split()) - len(rest.split()) :] if rest.strip() else []
    oblique = False
    for word in (each.lower().strip(" ?.!,") for each in words):
        if plain(word) in _FILLERS or not word:
            continue
        if word in _PREPOSITIONS:
            oblique = True
        elif word.endswith(_OBLIQUE):
            oblique = word.endswith(_ADJECTIVE)
        elif oblique:
            oblique = False
        else:
            return True
    return False


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
