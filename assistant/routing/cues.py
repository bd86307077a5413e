"""Groups the cue words that point to a tool, and counts a question's matches as features of the tool classifier.

Patterns match the normal form of a text (`normal_form.plain`): lower case, no diacritics.
"""

from __future__ import annotations

import re

from assistant.routing.cue_words import (
    ADVICE,
    ASK,
    CLOTHES,
    CODE,
    DOCUMENT,
    DRAW,
    FACT,
    FACT_ASKED,
    FACT_START,
    HOWTO_FIRST,
    MAKE,
    MATHS,
    OWN,
    PICTURE,
    PICTURE_PL,
    QUANTITY,
    SKY,
    SOCIAL,
    STYLE,
    SYMBOLS,
    TIME,
    WEATHER,
    WRITE,
    WRITE_FIRST,
)
from assistant.routing.normal_form import plain

GROUPS = {
    "image.draw": re.compile(rf"\b(?:{DRAW})\b"),
    "image.first": re.compile(
        rf"(?:^|[,.!?] )(?:{ASK})*(?:{DRAW}|(?:na|wy|za)(?:rysowac|malowac|szkicowac|generowac|projektowac"
        rf"|renderowac))\b"
        r"(?! (?:up(?! a (?:picture|drawing))|on|near|out|from|nearer) )"
        r"(?!.{0,30}\b(?:graph|wykres\w*|plot of|funkcj\w*|conclusions?|wnios\w*|parallels?|a line between"
        r"|the wall|a wall"
        r"|sciane|pokoj|in words|slowami|attention|comparison|porowna\w*|distinction|the line|lots)\b)"
    ),
    "image.make": re.compile(rf"\b(?:{MAKE})\b.{{0,40}}\b(?:{PICTURE}|{PICTURE_PL})\b"),
    "image.of": re.compile(
        rf"^(?:{ASK})*(?:(?:an?|the|some|two|three|jakis|ladny|ladne|piekny|piekne) )?(?:[\w-]+ ){{0,3}}"
        rf"(?:photo|photograph|picture|image|painting|drawing|portrait|illustration|poster|logo|rendering"
        rf"|sketch) (?:of|for|showing|with)\b"
        rf"|^(?:{ASK})*(?:{MAKE} )?(?:zdjecie|fotografi[ae]|obraz(?:ek|ki)?|portret|rysun(?:ek|ki)|grafik[aeę]"
        rf"|ilustracj[aeę]|plakat|logo|tapet[aeę]"
        rf"|szkic|mural|pejzaz|baner|awatar|okladk[aeę]|kolorowank[aeę]|wizualizacj[aeę]|karykatur[aeę])\b"
    ),
    "image.look": re.compile(
        r"(?:show|imagine|visuali[sz]e|pokaz|przedstaw|wyobraz).{0,30}(?:look like|looked like|as (?:a|an) "
        r"|wygladal\w*|jako|wyglada\w*)"
    ),
    "image.picture": re.compile(rf"\b(?:{PICTURE}|{PICTURE_PL})s?\b"),
    "image.style": re.compile(rf"\b(?:{STYLE})\b"),
    "weather.word": re.compile(rf"\b(?:{WEATHER})\b"),
    "weather.explicit": re.compile(r"\b(?:weather|forecasts?|pogod\w+|prognoz\w+)\b"),
    "weather.sky": re.compile(rf"\b(?:{SKY})\b"),
    "weather.clothes": re.compile(rf"\b(?:{CLOTHES})\b"),
    "time": re.compile(rf"\b(?:{TIME})\b"),
    "math.word": re.compile(rf"\b(?:{MATHS})\b"),
    "math.quantity": re.compile(rf"(?:^|\b|(?<=\s))(?:{QUANTITY})"),
    "math.symbol": re.compile(SYMBOLS),
    "math.digit": re.compile(r"(?<!page )(?<!stronie )(?<!strona )(?<![\d.])(?!(?:1\d|20)\d\d\b)\d"),
    "wikipedia.question": re.compile(FACT_START),
    "wikipedia.asked": re.compile(FACT_ASKED),
    "wikipedia.explicit": re.compile(
        r"\b(?:tell me (?:more |something )?about (?!(?:the |today's |tomorrow's )?(?:weather|forecast"
        r"|temperature))|history of|histori[aei]\b|ever recorded"
        r"|record (?:snow|rain|temp|heat|cold|high|low)\w*|rekordow\w+|measure[ds]?|instruments?|mierzy"
        r"|przyrzad\w*|what causes?|caused by|is formed"
        r"|phenomen\w+|zjawisk\w*|opowiedz (?:mi )?o (?!pogod)|wikipedi\w*|encyclop\w+|encykloped\w*|climate of"
        r"|klimat\w*)"
    ),
    "wikipedia.fact": re.compile(rf"\b(?:{FACT})\b"),
    "documents.word": re.compile(rf"\b(?:{DOCUMENT})\b"),
    "documents.definite": re.compile(
        rf"\b(?:the|this|that|my|our|these|those|its) (?:[\w'-]+ ){{0,3}}?(?:{DOCUMENT})\b"
        rf"|\b(?:w|we|na|z|ze|wedlug|zgodnie z|do|o|moj\w*|nasz\w*|tym|tej|tego) (?:[\w-]+ ){{0,2}}?(?:{DOCUMENT})\b"
    ),
    "documents.ask": re.compile(
        r"\b(?:say|says|said|mention\w*|state[sd]?|cover\w*|specif\w+|according|find|search|quote|extract"
        r"|summari[sz]e|list|check|look (?:up|in|into|through)"
        r"|otworz|open|zobacz|mowi|mowia|pisza|napisan\w*|podan\w*|podaje|opisan\w*|zapisan\w*|wspomin\w*"
        r"|obejmuje|znajdz|przeszukaj"
        r"|zacytuj|wyciagnij|stresc|podsumuj|wypisz|sprawdz|poszukaj|zajrzyj)\b"
    ),
    "documents.own": re.compile(rf"\b(?:{OWN})\b"),
    "none.write": re.compile(rf"\b(?:{WRITE})\b"),
    "none.write.first": re.compile(rf"^(?:{ASK}|help me (?:to )?|pomoz mi |short |krotki\w* )*(?:{WRITE_FIRST})\b"),
    "none.howto.first": re.compile(rf"^(?:{ASK}|so )*(?:{HOWTO_FIRST})"),
    "none.code": re.compile(rf"\b(?:{CODE})(?!\w)"),
    "none.figurative": re.compile(
        r"\b(?:in words|with words|slowami|conclusions?|wniosk\w*|parallels?|draw up (?!a picture|an image"
        r"|a drawing)\w+|draw on|draw attention"
        r"|draw (?:the|my|your) (?:curtains?|blinds|line)|draw a (?:bath|breath|crowd|blank|salary|pension)"
        r"|draw lots|nice weather we|ladna mamy pogod\w*|draw a (?:line|distinction|comparison)|under the weather"
        r"|cats and dogs|when it rains it pours|obraz (?:firmy|sytuacji|siebie)|my painting|mojego obrazu"
        r"|moj obraz|get the picture|picture this|big picture|pod psem"
        r"|burz[aeęy] mozgow|brainstorm\w*|cloud (?:storage|computing|provider)|chmur\w+ obliczeniow\w+"
        r"|storm in a teacup|z duzej chmury|perfect storm)\b"
    ),
    "none.social": re.compile(SOCIAL),
    "none.advice": re.compile(rf"\b(?:{ADVICE})\b"),
}
"""Patterns by group."""

_GATES = {
    "weather.explicit": ("wikipedia.",),
    "wikipedia.asked": ("none.",),
    "wikipedia.explicit": ("weather.", "time"),
    "none.figurative": ("image.", "weather.", "time", "documents.ask"),
    "image.first": ("weather.", "none.", "documents.", "wikipedia.", "math.digit", "time"),
    "none.write.first": ("weather.", "wikipedia.", "image.", "math.word", "math.digit", "documents.", "time"),
    "none.howto.first": ("wikipedia.", "image.", "math.word", "documents.word"),
    "documents.own": ("weather.", "math.digit", "wikipedia."),
}
"""Groups whose matches do not count beside a match of the first one, which decides what the question is about."""
_UNGATED = {
    "none.write.first": ("math.symbol", "documents.own", "wikipedia.question"),
    "documents.own": ("none.write.first",),
    "weather.explicit": ("wikipedia.explicit",),
}
"""Groups beside which the gate stays open."""

_NAME = re.compile(r"(?<=[\w,;] )[A-ZÀ-Ž][\w'-]+")
"""A capitalised word that does not begin a sentence."""
_PLACE = re.compile(r"\b(?:in|at|for|near|to|w|we|na|dla|nad|pod|do|kolo)\s+(?:the\s+)?[A-ZÀ-Ž][\w-]+", re.UNICODE)


def cues(text: str) -> dict[str, float]:
    """Return the features of a question for the classifier of tools: matches by group of cues, at most 3 each.

    Names in the question are features too.
    """
    normal = plain(text)
    found = {name: float(min(3, len(pattern.findall(normal)))) for name, pattern in GROUPS.items()}
    for gate, closed in _GATES.items():
        if found[gate] and not any(found[other] for other in _UNGATED.get(gate, ())):
            found.update((name, 0.0) for name in GROUPS if name != gate and name.startswith(closed))
    found["name"] = float(bool(_NAME.search(text)))
    found["place"] = float(bool(_PLACE.search(text)))
    found["none"] = float(not any(found.values()))
    sky = found["weather.word"] + found["weather.sky"] + found["weather.clothes"] > 0
    found["weather.place"] = float(sky and found["place"] > 0)
    found["weather.time"] = float(sky and found["time"] > 0)
    found["documents.both"] = float(found["documents.word"] > 0 and found["documents.own"] > 0)
    subjects = {name.partition(".")[0] for name, value in found.items() if value and "." in name}
    if len(subjects) == 1:
        found[f"{subjects.pop()}.alone"] = 1.0
    return {name: value for name, value in found.items() if value}
