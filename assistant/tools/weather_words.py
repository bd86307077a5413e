"""Lists the words by which `weather_questions` finds places in English and Polish questions about the weather.

Weather words, prepositions, and words that no place name contains; in lower case and without diacritics.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WEATHER = re.compile(
    r"weather\w*|forecasts?|temperatures?|rain\w*|snow(?:s|y|ing|fall)?|sunny|sun|sunshine|cloud(?:s|y)|storm(?:s|y)?"
    r"|thunder\w*|wind(?:s|y|ier)?|fog(?:gy)?|mist(?:y)?|frost(?:s|y)?|freez(?:e|es|ing)|icy|ice|hot(?:ter|test)?"
    r"|cold(?:er|est)?|warm(?:er|est|th)?|cool(?:er)?|chilly|humid(?:ity)?|dry|wet|degrees|umbrellas?|hail|drizzl\w+"
    r"|showers?|celsius|fahrenheit|pour(?:s|ing)?|jackets?|coats?"
    r"|pogod\w{1,3}|prognoz\w{1,3}|temperatur\w{1,3}|pad(?:a|ac|alo|nie)|popad\w+|spadnie|leje|lac|lalo|deszcz\w*|snieg\w*"
    r"|sniez\w+|slonc\w+|slonecz\w+|swieci\w*|burz\w{1,4}|grzmi|wiatr\w{0,3}|wieje|wiac|wialo|mgl\w+|mroz\w{0,3}|mroz"
    r"|zimn\w+|ciepl\w+|gorac\w+|upal\w*|wilgotn\w+|stopni\w*|parasol\w*|kurtk\w+|chmur\w*|pochmur\w+|aur[aeyo]|opad\w*"
    r"|such\w|mokr\w|slisk\w+|termometr\w*|deszczow\w+"
)
"""Words that a question about the weather has."""
BESIDE = re.compile(
    r"weather|forecasts?|temperature|rain|snow|humidity|wind|pogod[aeyo]|pogode|prognoz[aeyo]|temperatur[aeyo]|deszcz"
    r"|snieg|burz[ae]|wiatr"
)
"""Words beside which a name stands without a preposition."""
STRONG = _words("in at for near around w we dla kolo obok")
"""Prepositions after which a place is likely, also in lower case."""
WEAK = _words("na nad pod przy do to over towards toward of across")
"""Prepositions after which a place is possible."""
ORIGIN = _words("from z ze od")
"""Prepositions of the place that a person leaves."""
INTRODUCING = _words("i'm jestem imie nazywam")
"""Words before the name of a person."""
NEVER_PLACES = _words("i i'm i'd i'll i've celsius fahrenheit english polish")
"""Words with a capital that name no place behind a preposition either."""
JOINING = _words("de da do del della di du la las le les los am an der upon sur of nad pod ob el al")
"""Words in lower case inside of names, before another word with a capital."""
KINDS = _words(
    """
    area center centre centrum city miasta miasto miejscowosci miescie okolica okolicach okolicy poblizu region rejonie
    stolicy the town village
    """
)
"""Words between a preposition and the name of a place."""
_FUNCTION_WORDS = _words(
    """
    a about according actually after air albo ale all also am an and ani any are as asks bad bardziej bardzo be because
    beda bede bedzie been before being bez bierz big bit bo both brac bring but buy by byc byl byla bylo byly can case
    celsius chance chances chce chcialabym chcialbym check checking cheers chodzi chyba co cos could czego czeka czesc
    czy czym dear degree did dlaczego dobry dobrze does doing don't dopisze dosc during duzo dzieki dziekuje dzien
    dzisiaj each either else enough everyone everything expect fahrenheit feel feels find fine friend gdy gdyby gdzie
    general get gets give go going good got had has have having he hej hello help her here hey hi his home how how's i
    i'd i'll i'm i've ich if ile im into is isn't it it's its ja jadac jade jak jaka jaki jakie jako jesli jest jestem
    jestesmy jezeli just juz kiedy know ktora ktore ktory kupic last later latest leave lece lecz lepiej less let let's
    level like likely likes local look looking looks lot low lub ma macie make mam mamy many may maybe me mean mi
    mieszkam might mnie mocno moge moj moja moment more most moze mozesz mozna much mum musze my nadal nam name nas nasz
    nasza need next nic nice nie niech no nobody nosic not now o off ogole ok okay okolo on ona one ono or oraz our out
    outdoors pack pan pani people place planning planujemy please pls plus po podac podaj pokaz poki ponizej possible
    potrzebny potrzebuje powiedz powiedziec powietrza powyzej probably prosto prosze przed przestanie przez przyda
    question quick quite raczej rather raz razie really roads sa same say see shall she should show sie since so sobie
    some something soon speed sprawdz still stop stops such sure swim swoim ta tak taka take taki tam te tego tej tell
    temu ten teraz than thank thanks that the their them then there there's these they thing think this those tobie too
    took travelling trip troche trzeba tu tutaj ty tym u ubrac ubrania under up us very via want wants warto was water
    we'll we're wear wedding well were wezme what what's when where whether which while who why wiec wiem wiesz will
    witaj witam with without wlasnie wody wonder work would wybieram wychodzimy wzgledu wziac year yes yet you your za
    zabrac zawsze zeby zera zobacz
    """
)
"""Frequent words that are no part of a name."""
STOPS = _FUNCTION_WORDS | STRONG | WEAK | ORIGIN
"""Words that no name of a place in lower case contains."""
NO_PLACES = _words(
    """
    afternoon autumn basen basenie biegania bieganie bike car celsjusza detail domem domu drodze drogach drogi dwor
    dworze dzialce dziecka english evening fact garden gorach gory grilla holiday holidays house jazdy jesieni kraju
    lato lecie lotnisku mind morning morze morzem nartach narty night office ogrod ogrodzie particular picnic plaze
    plazy pole polish prace pracy ride rower rowerze run school shape spacer spacerze spring stoku summer swiecie szkole
    szkoly termometrze total trouble wakacjach wakacje walk winter wiosne wycieczce wycieczke zewnatrz zime zimie
    """
)
"""Nouns that follow a preposition of place without naming a place."""
