"""Guesses the nominatives of inflected Polish place names: "Lądku" -> "Lądek", "Nowym Jorku" -> "Nowy Jork".

Polish declension is not reversible without a dictionary: "Władysławowie" can be of "Władysławów" or "Władysławowo". So
the rules give candidates in order of likelihood, and a geocoder decides which of them exists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

MAX_CANDIDATES = 12
MAX_WORDS = 5
MAX_PER_WORD = 5
MAX_WORD_LENGTH = 40

_IRREGULAR = {
    "białymstoku": "Białystok", "białegostoku": "Białystok", "krasnymstawie": "Krasnystaw",
    "krasnegostawu": "Krasnystaw", "włoszech": "Włochy", "niemczech": "Niemcy", "węgrzech": "Węgry",
    "rzymie": "Rzym", "zdroju": "Zdrój", "dworze": "Dwór", "dworu": "Dwór", "mieście": "Miasto", "miasta": "Miasto",
    "okiem": "Oko", "oku": "Oko",
}  # fmt: skip
_ENDINGS: dict[str, Sequence[str]] = {
    # Locative in -e, whose consonants are softened
    "owie": ("ów", "owo", "owa"), "ewie": ("ew", "ewo", "ewa"), "awie": ("awa", "aw", "awy"), "wie": ("wa", "w", "wo"),
    "bie": ("ba", "b", "bo"), "pie": ("pa", "p", "po"), "mie": ("m", "ma", "mo"), "fie": ("fa", "f"),
    "nie": ("n", "na", "no", "nie"), "śnie": ("sno", "sna", "śnia"), "źnie": ("zno", "zna"),
    "cie": ("t", "ta", "to", "cie"), "ście": ("st", "sta", "sto"), "szcie": ("szt", "szta"),
    "dzie": ("d", "da", "do"), "odzie": ("ód", "oda", "od"), "ździe": ("zd", "zda", "zdo"),
    "sie": ("sa", "s", "so"), "zie": ("za", "z", "zo"), "rze": ("ra", "r", "ro", "rze"), "orze": ("or", "ora", "ór"),
    "le": ("ła", "ł", "ło", "la", "le"), "śle": ("sło", "sła"), "źle": ("zło", "zła"),
    "dze": ("ga", "dza"), "ce": ("ka", "ce", "ca"), "sze": ("cha",), "że": ("ga",),
    # Locative and genitive in -u
    "ku": ("k", "ek", "ko"), "dku": ("dek", "dko"), "tku": ("tek", "tko"), "nku": ("nek", "nk"), "bku": ("bek",),
    "pku": ("pek",), "wku": ("wek", "wko"), "zku": ("zek", "zko"), "sku": ("sk", "sko"), "cku": ("ck", "cko"),
    "gu": ("g", "go"), "chu": ("ch",), "niu": ("ń", "nie"), "dniu": ("deń",), "wiu": ("w", "wie"), "biu": ("b", "bie"),
    "ębiu": ("ębie", "ąb"), "miu": ("m", "mie"), "piu": ("p", "pie"), "ciu": ("ć", "cie"), "dziu": ("dź", "dzie"),
    "siu": ("ś", "sie"), "ziu": ("ź", "zie"), "lu": ("l", "le"), "cu": ("ec", "c", "ce"), "wcu": ("wiec",),
    "ńcu": ("niec",), "pcu": ("piec",), "bcu": ("biec",), "mcu": ("miec",), "rcu": ("rzec",), "czu": ("cz", "cze"),
    "szu": ("sz", "sze"), "żu": ("ż", "że"), "rzu": ("rz", "rze"), "dzu": ("dz", "dze"), "ju": ("j", "je"),
    "oju": ("ój", "oj"), "u": ("", "o"),
    # Locative and genitive in -i and -y
    "ii": ("ia",), "ji": ("ja",), "ei": ("ea", "eja"), "ni": ("nia", "ń", "na"), "li": ("la", "l", "li"),
    "oli": ("ola", "ól"), "dzi": ("dź", "dzia"), "odzi": ("ódź", "odź"), "ci": ("ć", "cia"), "si": ("ś", "sia"),
    "zi": ("ź", "zia"), "wi": ("w", "wia"), "ki": ("ka", "ki"), "gi": ("ga", "gi"), "i": ("ia", "i"),
    "cy": ("ca", "c"), "czy": ("cz", "cza"), "szy": ("sz", "sza"), "ży": ("ża", "ż"), "rzy": ("rz", "rza"),
    "y": ("a", "y", ""),
    # Plural: locative, instrumental, genitive
    "ach": ("y", "a", "e"), "cach": ("ce",), "kach": ("ki",), "gach": ("gi",), "jach": ("je", "ja"), "lach": ("le",),
    "szach": ("sze",), "żach": ("że",), "czach": ("cze",), "rzach": ("rze",), "iach": ("ie", "ia"), "chach": ("chy",),
    "ami": ("y", "a", "e"), "cami": ("ce",), "kami": ("ki",), "gami": ("gi",), "jami": ("je",),
    "ic": ("ice",), "yc": ("yce",), "lc": ("lce",), "ów": ("y", "i"), "en": ("eny",), "ek": ("ki",), "aw": ("awy",),
    # Genitive in -a
    "a": ("", "e", "o"), "owa": ("ów", "owo"), "ka": ("ek", "k", "ko"), "ska": ("sk", "sko"), "cka": ("ck", "cko"),
    "nia": ("ń", "nie"), "dnia": ("deń",), "wia": ("w", "wie"), "mia": ("m", "mie"), "bia": ("b", "bie"),
    "ębia": ("ębie", "ąb"), "cia": ("ć", "cie"), "wca": ("wiec",), "ńca": ("niec",), "lca": ("lec",),
    "ca": ("ec", "ce"),
    # Instrumental
    "ą": ("a",), "ią": ("ia",), "em": ("", "o", "e"), "owem": ("ów", "owo"), "kiem": ("k", "ek", "ko", "kie"),
    "dkiem": ("dek",), "giem": ("g", "go"), "niem": ("ń", "nie"), "wiem": ("w", "wie"), "miem": ("m", "mie"),
    "ciem": ("ć", "cie"), "wcem": ("wiec",), "ńcem": ("niec",), "lcem": ("lec",),
}  # fmt: skip
_ADJECTIVES: dict[str, Sequence[str]] = {
    "kiej": ("ka",), "giej": ("ga",), "iej": ("ia",), "ej": ("a",),
    "im": ("i", "ie"), "ym": ("y", "e"), "iem": ("ie",), "em": ("e",),
    "iego": ("i", "ie"), "ego": ("y", "e"), "ich": ("ie", "i"), "ych": ("e", "y"),
}  # fmt: skip
_INVARIABLE = re.compile(r" (?:nad|pod|koło|k\.|am|an der|de|upon|sur) ", re.IGNORECASE)
"""A preposition inside of a name: it and what follows keep their form ("Frankfurcie nad Menem")."""
_SEPARATORS = re.compile(r"([ -]+)")
_PLURAL_OR_NEUTER = "oeęyi"


def nominatives(name: str) -> list[str]:
    """Return the nominatives of which the Polish place name `name` can be an inflected form, the likeliest first.

    `name` itself is left out.
    """
    if (rest := _INVARIABLE.search(name)) is not None:
        return [head + name[rest.start() :] for head in nominatives(name[: rest.start()])]
    parts = _SEPARATORS.split(name.strip())
    words = parts[::2]
    if not all(words) or len(words) > MAX_WORDS or max(map(len, words)) > MAX_WORD_LENGTH:
        return []
    choices = [_word(word, alone=len(words) == 1) for word in words]
    ranked = sorted(product(*map(enumerate, choices)), key=lambda combination: sum(rank for rank, _ in combination))
    found = [[word for _, word in combination] for combination in ranked]
    agreeing = found if "-" in name else [each for each in found if _agrees(words, each)] or found
    joined = ["".join(map("".join, zip(each, [*parts[1::2], ""], strict=True))) for each in agreeing]
    return [each for each in dict.fromkeys(joined) if each != name][:MAX_CANDIDATES]


def _word(word: str, *, alone: bool) -> list[str]:
    """Return the candidates of one word of a name, the likeliest first, with the word itself last."""
    lowered = word.lower()
    if lowered in _IRREGULAR:
        return [_IRREGULAR[lowered]]
    adjectives = _replaced(word, _ADJECTIVES, only_longest=True)
    if adjectives and not alone:
        return adjectives
    nouns = _replaced(word, _ENDINGS)
    both = dict.fromkeys([*adjectives, *nouns] if lowered.endswith("ej") else [*nouns, *adjectives])
    return [*list(both)[: MAX_PER_WORD + alone * MAX_CANDIDATES], word]


def _replaced(word: str, endings: dict[str, Sequence[str]], *, only_longest: bool = False) -> list[str]:
    """Return `word` with its ending replaced by each rule that fits it; the rules of longer endings first."""
    found: list[str] = []
    for length in range(min(5, len(word) - 1), 0, -1):
        stem, ending = word[:-length], word[-length:].lower()
        found += [stem + each for each in endings.get(ending, ())]
        if found and only_longest:
            break
    return list(dict.fromkeys(found))


def _agrees(words: Sequence[str], candidate: Sequence[str]) -> bool:
    """Return whether the adjectives of a candidate have the gender and number of its first noun."""
    adjective = [bool(_replaced(word, _ADJECTIVES)) and word.lower() not in _IRREGULAR for word in words]
    nouns = [each for each, is_adjective in zip(candidate, adjective, strict=True) if not is_adjective]
    if not nouns:
        return True
    ending = nouns[0][-1].lower()
    expected = "a" if ending == "a" else "e" if ending in _PLURAL_OR_NEUTER else "yia"
    return all(each[-1] in expected for each, is_adjective in zip(candidate, adjective, strict=True) if is_adjective)
