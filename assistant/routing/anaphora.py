"""Finds phrases in a follow-up question that refer to earlier turns, such as "that ship" or "the city we discussed".

Patterns match the normal form of a text (`normal_form.plain`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from assistant.routing.entities import last_document, last_expression
from assistant.turn import Turn


class Reference(StrEnum):
    """What a question lacks to stand alone."""

    PLACE = "place"
    PERSON = "person"
    TOPIC = "topic"
    THING = "thing"
    """A topic that is no person."""
    EXPRESSION = "expression"
    DOCUMENT = "document"
    REQUEST = "request"
    """The request for a picture that it changes."""
    QUESTION = "question"
    """The question of which it replaces a part: "and on Sunday?"."""


PERSON_NOUN = re.compile(
    r"\b(?:the|that|this|the same) (?:man|woman|composer|painter|artist|author|writer|poet|scientist|king|queen|emperor"
    r"|president|actor|actress|director|singer|inventor|philosopher|explorer|physicist|musician|player|founder"
    r"|leader)\b"
    r"(?! (?:of|in|who|that|from|with)\b)"
    r"|\b(?:ten|ta|tego|tej|tym|temu) (?:mezczyzn\w+|kobiet\w+|artyst\w+|aktor\w*|rezyser\w*|piosenkar\w*|wynalazc\w+"
    r"|filozof\w*|odkrywc\w+|fizyk\w*|muzyk\w*|cesarz\w*|prezydent\w*|uczon\w+)\b"
    r"|^(?:\w+ ){1,3}(?:kompozytor|malarz|pisarz|poeta|naukowiec|aktor|rezyser|wynalazca|filozof|wladca"
    r"|krol)(?: \w+l[aoiy]?)?\W*$"
)
THING_NOUN = re.compile(
    r"\b(?:the|that|this|the same) (?:ship|volcano|painting|picture|statue|tower|bridge|castle|church|palace"
    r"|building|book"
    r"|novel|film|movie|song|album|series|animal|bird|fish|plant|tree|river|lake|mountain|desert|island|company|team"
    r"|club"
    r"|war|battle|event|treaty|invention|machine|planet|moon|star|element|metal|disease|language|dish|festival|game"
    r"|band"
    r"|organi[sz]ation|museum|university|theory|law|empire|kingdom|dynasty|species|structure|work|play|opera"
    r"|symphony)\b"
    r"(?! (?:of|in|where|that|which|with|between|by|about|called|from|on|near|and|or)\b)(?! [a-z]+ing\b)"
    r"|\b(?:ten|ta|to|te|tego|tej|tym|temu|tych) (?:statk\w+|statek|wulkan\w*|rzezb\w+|wiez\w+|most\w*|kosciol\w*"
    r"|palac\w*"
    r"|dziel\w+|utwor\w*|piosenk\w+|plyt\w+|serial\w*|ptak\w*|ryb\w+|roslin\w+|drzew\w+|pustyn\w+|wysp\w+|firm\w+"
    r"|druzyn\w+|klub\w*|wydarzeni\w+|traktat\w*|wynalaz\w+|maszyn\w+|planet\w+|ksiezyc\w*|gwiazd\w+|pierwiast\w+"
    r"|metal\w*"
    r"|chorob\w+|jezyk\w*|danie|potraw\w+|festiwal\w*|gr[aey]|zespol\w*|organizacj\w+|muzeum|uczelni\w*|prawo|prawa"
    r"|imperium|krolestw\w+|gatun\w+|budowl\w+|sztuk\w+|oper\w+|symfoni\w+|zwierzet\w+|zabyt\w+)\b"
    r"|^(?:\w+ ){1,4}(?:statek|budynek|obraz|wulkan|film|utwor|ksiazka|zamek|most|wieza|firma|rzeka"
    r"|gora)(?: sie)? \w+(?:l[aoiy]?|to)\W*$"
)
OF_THING = re.compile(
    r"\bna (?:jej|jego|ich) podstawie\b|^(?:and |now |please |can you |could you )*(?:draw|paint"
    r"|sketch) (?:me )?one\b|^(?:a |teraz )*(?:narysuj|namaluj) (?:mi )?jed\w+\b"
    r"|^(?:and |now |please )*compare (?:it|that|this|them) (?:with|to)\b"
    r"|^(?:a |teraz |prosze )*porownaj (?:to|go|ja|je) z\b"
)
MENTIONED = re.compile(
    r"\bthe (?:same |very )?(?P<noun>\w+) (?:that |which |who |whom )?(?:we|you|i)(?:'ve|'d| have| had| were"
    r"| was)?(?: just)?"
    r" (?:discussed|mentioned|talked about|talking about|spoke about|speaking of|asked about|named|described|drew"
    r"|showed"
    r"|told me about|calculated|computed|introduced)(?: me)?(?: earlier| before| above| just now| a moment ago"
    r"| previously)?"
    r"|\bthe (?:aforementioned|previous|above|last-mentioned|said) (?P<noun2>\w+)"
    r"|\b(?P<noun3>\w+),? (?:o|od|z|do|w) ktor(?:ym|ej|ych|ego) (?:\w+ ){0,2}?(?:rozmawia|mowi|wspomina|wspomnia"
    r"|pisa|pyta)\w*"
    r"(?: (?:wczesniej|przed chwila|wyzej))?,?"
    r"|\b(?P<noun4>\w+),? ktor[aeyiąę]\w* (?:\w+ )?(?:wymieni|opisa|narysowa|wspomnia|poda|omowi|omawia|wskaza)l\w+,?"
    r"|\b(?:wspomnian|wymienion|omawian|wyzej wymienion|poprzedni)\w* (?P<noun5>\w+)",
    re.IGNORECASE,
)
"""A noun phrase for what was mentioned before: "the city we discussed", in normal form."""
_MENTIONED_KINDS = (
    (
        Reference.PLACE,
        r"city|town|village|place|country|island|region|capital|lake|beach|resort|miast\w*|miejsc\w+|kraj\w*|wysp\w+"
        r"|region\w*|stolic\w+|jezior\w*|plaz\w+|miejscowosc\w*|wies|wsi|miescie",
    ),
    (
        Reference.EXPRESSION,
        r"result|number|answer|sum|function|equation|expression|wynik\w*|liczb\w+|funkcj\w+|rownani\w+",
    ),
    (Reference.REQUEST, r"picture|image|drawing|painting|sketch|obraz\w*|rysun\w+|grafik\w+|zdjeci\w+"),
    (
        Reference.DOCUMENT,
        r"document|file|contract|report|letter|agreement|policy|dokument\w*|plik\w*|umow\w+|raport\w*",
    ),
    (
        Reference.PERSON,
        r"\w+(?:ician|ist|er|or|man|woman)|person|king|queen|poet|scientist|\w+(?:yczk\w+|arz\w*|arka|arki|ista|isty"
        r"|torka"
        r"|tor|logo?w?i?e?|wca|zca|wcy|zcy|wczyni)|osob\w+|krol\w*|poet\w+|naukow\w+|postac\w*",
    ),
)
EXPLETIVE = re.compile(
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
EXTRAPOSED = re.compile(r"\b(?:is|was|isn't) (?:it|that) (?:an? )?(?:\w+ ){1,3}?(?:to|that|if)\b")
"""A clause for which "it" or "that" only stands in: "is it a good idea to learn Latin"."""
PLURAL_SUBJECT = re.compile(
    r"\b(?:do|did|can|could|should|will|would|have|are|were|why|how) (?:\w{2,}s|people|children|men|women)\b"
)
CLAUSE_END = re.compile(
    r"[.?!:;,]|\b(?:so that|because|if|when|while|before|after|until|bo|zeby|jesli|jezeli|gdy|poniewaz)\b"
    r"|\b(?:and|i|oraz) (?=(?:who|what|when|where|which|how|why|is|was|does|did|kto|co|kiedy|gdzie|jak\w*|ile|czy)\b)"
)
POINTS = re.compile(r"that\b|this\b|the same\b|te\w*\b|t[ao]\b|ty\w+\b")
_DEMONSTRATIVE = re.compile(
    r"(?<!\bso )(?<!\bthink )(?<!\bsay )(?<!\bknow )(?<!\bmean )"
    r"\b(?:that|this|those|these|the same) (?P<noun>[a-z]{3,})"
    r"(?=[?.!]*$| (?:is|was|are|were|does|did|do|has|have|had|can|could|will|would|really|still|in|on|at|for)\b"
    r"| \w+ed\b)"
    r"|\b(?:ten|ta|te|tego|tej|tych|tym|tymi|temu) (?:sam\w* )?(?P<noun2>[a-z]{3,})"
)
_NO_REFERENT = re.compile(
    r"(?:year|month|week|weekend|day|morning|afternoon|evening|night|time|season|summer|winter|spring|autumn|way|kind"
    r"|sort|case|question|problem|point|sentence|word|text|code|mean|means|work|works|possible|correct|true|right|enough"
    r"|does|are|was|were|has|have|had|can|could|will|would|should|they|there|you|she|the"
    r"|rok\w*|miesi\w+|tydzien|tygodni\w+|weekend\w*|dzien|dni\w*|noc\w*|wiecz\w+|ran\w+|raz\w*|czas\w*|sposob\w*"
    r"|sezon\w*|lat\w+|zim\w+|wiosn\w+|jesien\w*|zdani\w+|slow\w+|pytani\w+|kod\w*|tekst\w*|jest|sie|nie|ze|por\w+)"
)
"""Nouns that a demonstrative points at outside the conversation, as in "this week", or words that are no nouns."""
THAT_DOCUMENT = re.compile(
    r"\b(?:(?:that|this|the same) (?:document|file|contract|report|letter|agreement|policy|paper|text)"
    r"|the (?:document|file)|(?:ten|tego|tym|ta|tej|te|tamt\w+) (?:sam\w* )?(?:dokument\w*|plik\w*|umow\w+|raport\w*"
    r"|pism\w+|list\w*"
    r"|tekst\w*))\b"
)


def mentioned(text: str, history: Sequence[Turn], *, pictures: bool) -> Reference | None:
    """Return what kind of thing a phrase such as "the city we discussed" refers to; `None` if there is no such phrase.

    Args:
        text: the question in normal form.
        history: the turns before it.
        pictures: whether an earlier turn asked for a picture.
    """
    found = MENTIONED.search(text)
    noun = next((each for each in found.groups() if each), "") if found else ""
    if not noun:
        return None
    kind = next((kind for kind, nouns in _MENTIONED_KINDS if re.fullmatch(nouns, noun)), Reference.THING)
    if kind is Reference.REQUEST and not pictures:
        return Reference.THING
    lacks = (kind is Reference.EXPRESSION and not last_expression(history)) or (
        kind is Reference.DOCUMENT and not last_document(history)
    )
    return None if lacks else kind


def demonstrative(text: str) -> Reference | None:
    """Return what kind of thing a demonstrative with a noun refers to: "that skyscraper", "ten wieżowiec".

    `text` is the question in normal form. `None` without such a phrase.
    """
    found = _DEMONSTRATIVE.search(text)
    noun = next((each for each in found.groups() if each), "") if found else ""
    if not noun or _NO_REFERENT.fullmatch(noun):
        return None
    kind = next((kind for kind, nouns in _MENTIONED_KINDS if re.fullmatch(nouns, noun)), Reference.THING)
    return kind if kind in (Reference.PLACE, Reference.PERSON) else Reference.THING
