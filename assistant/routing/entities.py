"""Finds the entities that earlier turns of a chat were about: places, persons, topics, expressions, documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assistant.routing.normal_form import plain
from assistant.turn import Turn

_CAPITAL = "A-ZÀ-ÖØ-ÞĄĆĘŁŃÓŚŹŻČŠŽ"
_WORD = rf"[{_CAPITAL}][\w'’.-]*\w|[{_CAPITAL}]"
_NAME = re.compile(
    rf"(?:{_WORD})(?:,? (?:(?:of|the|de|da|von|van|der|di|del|la|le|du|nad|pod|and|i|z|ze) )*(?:{_WORD}))*"
)
_PLACE = re.compile(
    rf"\b(in|at|to|from|near|for|of|around|visit|w|we|do|z|ze|nad|na|dla|koło|pod|In|At|From|W|We|Do|Z|Na|Nad|Dla)"
    rf" (?:the )?((?:{_WORD})(?:[ -](?:(?:nad|pod|de|la|of|upon|am|sur) )?(?:{_WORD}))*)"
)
_LOWER_PLACE = re.compile(
    r"\b(in|at|for|w|we|dla|na|nad) ((?!the\b|a\b|an\b|my\b)[a-ząćęłńóśźż]{3,}(?: (?:górz?e|city|beach|town))?)\b"
)
_OPENER_WORDS = """
what who when where which how why is are was were will do does did can could should would the a an in on at it
he she they we you i tell show give draw paint make write look find search yes no not according here there this
that my our your its his her their and or but so if for from to of by with as please compare check quote extract
summarise solve plot integrate differentiate simplify calculate compute expand factor evaluate sketch create
generate kim kto kiedy gdzie jaka jaki jakie jak ile czy co czym skad dlaczego czemu ktory ktora ktore w na nad
z ze o od po pod dla ale nie tak ten ta te tam ona ono oni one jest sa byl byla bylo byly moj moja moje wedlug
zgodnie narysuj namaluj stworz zrob wygeneruj opowiedz oblicz policz podaj sprawdz znajdz poprosze prosze napisz
rozwiaz odkryla odkryl odkryli napisal napisala namalowal namalowala wynalazl urodzil urodzila zmarl zmarla oto
gotowe obecnie teraz dzis jutro now today tomorrow ok sure done wikipedia google ai monday tuesday wednesday
thursday friday saturday sunday january february march april may june july august september october november
december celsius fahrenheit pdf
"""
_OPENERS = frozenset(_OPENER_WORDS.split())
"""Words that are no names, though they may have a capital: beginnings of sentences, days and months."""
_WORDS_OF_TIME = """
weekend week morning afternoon evening night moment future summer winter spring autumn total general detail
hours days weekendzie tygodniu nocy poniedzialek wtorek srode czwartek piatek sobote niedziele miesiacu roku
ogole zime lato jutro dzis teraz case fact english polish mind front words style black colour celsius
"""
_MOST_SUBJECT_WORDS = 6
_TIME_WORDS = frozenset(_WORDS_OF_TIME.split())
_TOPIC = re.compile(
    r"^(?:and |so |a |hi,? |ok,? )?(?:(?:what|who)(?:'s| is| are| was| were) (?:a |an |the )?(?!capital"
    r"|population|name|currency|weather|temperature)"
    r"|(?:please )?(?:tell me (?:more |something (?:\w+ )?|anything )?about|what do you know about|look up|explain"
    r"|describe|give me (?:some )?(?:background"
    r"|information|facts) (?:on|about))"
    r" (?:a |an |the )?|(?:the )?history of (?:the )?|how do(?:es)? (?:a |an |the )?|wikipedia article (?:about|on) "
    r"|co to (?:jest|są|za \w+|był[aoy]?) |czym (?:jest|są|był[aoy]?) |kim (?:jest|są|był[ai]?) "
    r"|opowiedz (?:mi )?(?:coś )?o |co wiesz o |powiedz (?:mi )?coś (?:\w+ )?o |historia "
    r"|znajdź (?:mi )?informacje o |na czym polega(?:ł[aoy]?|ją)? )(.+?)(?: work| made| about| known for)?[?.!]*$",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(
    r"(?:(?:\b\d*(?:sin|cos|tan|tg|ctg|ln|log\d*|exp|sqrt|pi|e)\b|\d+(?:[.,]\d+)?"
    r"|(?<![^\W\d_])[xyztnk](?![^\W\d_])|[-+*/^=()²³√%!×÷π])\s*)+",
    re.IGNORECASE,
)
_SHARE = re.compile(r"(?<!\d)\d+(?:[.,]\d+)?\s?(?:%|percent|procent) (?:of|z|from) \d+(?:[.,]\d+)*", re.IGNORECASE)
"""A percentage of a number."""
_RESULT = re.compile(
    r"(?:[a-z]{2,10}\d*(?=\()|pi\b|(?<![^\W\d_])[a-z](?![^\W\d_])|[-+*/^()!%.,\d\s√π])+", re.IGNORECASE
)
_CONSTANT = re.compile(r" \+ C$")
_MOST_RESULT_CHARACTERS = 300
_DOCUMENT = re.compile(
    r"(?:(?:my|our|the|your|this) )?(?:(?:uploaded|attached|scanned|employment|employee|rental|insurance|privacy"
    r"|annual|lease|last) )*"
    r"\b(?:contract|handbook|manual|report|spreadsheet|invoice|lease|agreement|policy|minutes|paper|thesis|pdf"
    r"|document|notes"
    r"|presentation|letter|file|statement|tender|doc)\b(?: (?:i|we) (?:uploaded|attached|sent you|gave you))?"
    r"|(?:(?:moj\w+|nasz\w+|załączon\w+|wgran\w+|przesłan\w+) )?\b(?:umow\w+(?: o pracę| najmu| kredytow\w+)?"
    r"|regulamin\w*(?: pracy)?|raport\w*"
    r"|faktur\w+|instrukcj\w+|arkusz\w*|protok[oó][łl]\w*|polis\w+|plik\w* pdf|dokument\w*|notat\w+|statut\w*"
    r"|prezentacj\w+|prac\w+ magistersk\w+)",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|ok|please|cześć|hej|proszę)[,!.]? )*(?:(?:could|can|would) you (?:please )?(?:tell me"
    r"|explain)"
    r"|do you (?:happen to )?know|i(?:'d| would) like to know|(?:czy )?możesz mi powiedzieć|czy wiesz|powiedz mi"
    r"|wiesz),? "
    r"(?=(?:who|what|which|where|when|how|why|kto|co|kim|czym|gdzie|kiedy|jak\w*|ile|któr\w+)\b)",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"^(?:who|kto) (?:\w+ed|\w+|(?:is|was|jest|był[ao]?) (?:the )?\w+ (?:of )?) (?:the |a |an )?(\w[\w '-]*?)[?.!]*$",
    re.IGNORECASE,
)
"""What a question for a person is about: "radium" in "Who discovered radium?"."""
_CONTENT = re.compile(
    r"^(?:(?:what|when|where|why|how|which|is|are|was|were|did|does|do|has|have|had|can|could|will|the|a|an|long"
    r"|many|much|far"
    r"|old|tall|kiedy|gdzie|jak|jakie|jaka|jaki|ile|ilu|co|czy|czym|czemu|dlaczego|po|to|jest|są|był|była|było"
    r"|był[aoy]?|się"
    r"|(?:tell me|powiedz mi|opowiedz(?: mi)?)(?: something| coś)?(?: interesting| ciekawego)? (?:about|o)"
    r"|of|in|on|w|na|z)\b[ ,]*)+",
    re.IGNORECASE,
)
_ASKS_WHO = re.compile(r"^(?:and |a |so )?(?:who|kto|kim|przez kogo|by whom)\b", re.IGNORECASE)
_ASKS_WHERE = re.compile(r"^(?:and |a )?(?:where|gdzie|how far)\b", re.IGNORECASE)
_ORIGIN = re.compile(r"^(?:from|z|ze)\b")
_ASKS_FOR_ENTITY = re.compile(
    r"^(?:and |a |so )?(?:who (?!is|was|are|were)\w+|who (?:is|was|are|were) the|which|what(?:'s| is"
    r"| was) the (?:capital|name|highest"
    r"|longest|largest|biggest|tallest|oldest)"
    r"|kto|jaka jest stolica|jaki\w* (?:jest|był\w*) (?:naj\w+|stolica)|któr\w+|naj\w+|what (?:city|country"
    r"|mountain|river))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Place:
    """A place as it was named: `phrase` with its preposition ("w Krakowie"), or "" if it had none."""

    name: str
    phrase: str = ""


def names(text: str) -> list[str]:
    """Return the proper names in a text, which are sequences of capitalised words, in order."""
    return [name for _, name in _names(text)]


def places(text: str) -> list[Place]:
    """Return the places that a text names, which are names after a preposition of place, in order."""
    found = []
    for match in _PLACE.finditer(text):
        words = match[2].split()
        if not _is_opener(words[0]):
            found.append(Place(match[2], f"{match[1].lower()} {match[2]}"))
    return found


def lower_case_places(text: str) -> list[Place]:
    """Return, in order, the places in a question about the weather typed without capitals ("weather in london")."""
    return [Place(m[2], m[0]) for m in _LOWER_PLACE.finditer(text.lower()) if plain(m[2]) not in _TIME_WORDS]


def expression(text: str) -> str:
    """Return the longest mathematical expression in a text, as it is typed; "" if there is none."""
    if share := _SHARE.search(text):
        return share[0]
    # "z" is also a Polish preposition: "całka z sin(x)".
    found = [re.sub(r"^z (?=[\w(])", "", match[0].strip(" ,.")) for match in _EXPRESSION.finditer(text)]
    fit = [each for each in found if re.search(r"\d|[xyztnk]\b", each) and len(each) > 1 and _balanced(each)]
    return max(fit, key=len, default="")


def document(text: str) -> str:
    """Return the phrase by which a text names a document, such as "my employment contract"; "" if there is none."""
    match = _DOCUMENT.search(text)
    return match[0].strip() if match else ""


def last_place(history: Sequence[Turn]) -> Place | None:
    """Return the place that the turns `history` were about last; `None` if there is none.

    It is named in a question first, else in its answer. A place in an answer about a person counts only where there is
    no other.
    """
    exchanges = list(_exchanges(history))
    found = (_place_of(*each) for each in exchanges if not _ASKS_WHO.match(each[0]))
    in_lives = (place for question, answer in exchanges for place in places(answer) if _ASKS_WHO.match(question))
    return next((place for place in found if place is not None), next(in_lives, None))


def last_person(history: Sequence[Turn]) -> str:
    """Return the name of the person that the turns `history` were about last; "" if there is none."""
    return _last_named(history, without_places=True)


def last_topic(history: Sequence[Turn]) -> str:
    """Return the name of what the turns `history` were about last, of any kind; "" if there is nothing."""
    return _last_named(history, without_places=False)


def last_thing(history: Sequence[Turn]) -> str:
    """Return the name of what the turns `history` were about last that is not a person; "" if there is nothing."""
    for question, answer in _exchanges(history):
        asked = _candidates(question, "", without_places=False)
        if _ASKS_WHO.match(question) and (asked or _ASKED.match(question)):
            whole = _ASKED.match(question)
            return asked[0] if asked or whole is None else whole[1]
        if found := _named_by(question, answer, without_places=False):
            return found
    return subject(history)


def subject(history: Sequence[Turn]) -> str:
    """Return the subject of the user's last turn in `history`, its text without the words that ask; "" if none."""
    question = next(_of_role(history, "user"), "")
    rest = _CONTENT.sub("", _POLITE.sub("", question)).strip(" ?.!")
    asked = rest != question.strip(" ?.!")
    return rest if asked and 0 < len(rest.split()) <= _MOST_SUBJECT_WORDS else ""


def last_expression(history: Sequence[Turn]) -> str:
    """Return the mathematical expression in the user's last turn in `history` that has one; "" if there is none."""
    return next((found for text in _of_role(history, "user") if (found := expression(text))), "")


def last_result(history: Sequence[Turn]) -> str:
    """Return the formula that the last answer consists of, without a constant of integration; "" for other answers."""
    answer = history[-1].text.strip(" `") if history and history[-1].role == "assistant" else ""
    result = _CONSTANT.sub("", answer)
    is_formula = len(result) <= _MOST_RESULT_CHARACTERS and _RESULT.fullmatch(result) and _balanced(result)
    return result if is_formula and re.search(r"\d|[xyztnk]\b", result) else ""


def last_document(history: Sequence[Turn]) -> str:
    """Return the phrase for a document in the user's last turn in `history` that names one; "" if there is none."""
    return next((found for text in _of_role(history, "user") if (found := document(text))), "")


def _place_of(question: str, answer: str) -> Place | None:
    named = [place for place in places(question) if not _ORIGIN.match(place.phrase)]
    if _ASKS_FOR_ENTITY.match(question) and (answered := _candidates(answer, question, without_places=False)):
        return Place(next((each for each in answered if plain(each) not in plain(question)), answered[0]))
    if named and not _ASKS_WHERE.match(question):
        return named[0]
    if (in_question := _candidates(question, "", without_places=False)) and in_question[0][:1].isupper():
        return Place(in_question[0])
    if lower := lower_case_places(question):
        return lower[0]
    return next(iter(places(answer)), None)


def _last_named(history: Sequence[Turn], without_places: bool) -> str:
    named = (_named_by(question, answer, without_places) for question, answer in _exchanges(history))
    return next((each for each in named if each), "")


def _named_by(question: str, answer: str, without_places: bool) -> str:
    """Return what a question with its answer was about: what it asked for, or what it named; "" if neither."""
    asked = _candidates(question, "", without_places)
    answered = [each for each in _candidates(answer, question, without_places) if each not in asked]
    ordered = [*answered, *asked] if _ASKS_FOR_ENTITY.match(question) else [*asked, *answered]
    return next(iter(ordered), "")


def _exchanges(history: Sequence[Turn]) -> Iterator[tuple[str, str]]:
    """Yield the user's turns, without polite beginnings, with the answers to them, latest first."""
    answer = ""
    for turn in reversed(history):
        if turn.role == "user":
            yield _POLITE.sub("", turn.text), answer
            answer = ""
        else:
            answer = turn.text


def _candidates(text: str, question: str, without_places: bool) -> list[str]:
    """Return what a text may be about, best first; names in an answer lose the words that its question has too."""
    in_places = {place.name for place in places(text)} if without_places else set()
    asked = {word[:5] for word in plain(question).split() if len(word) > 4}
    named = [each for each in names(text) if each not in in_places and plain(each) not in plain(question)]
    named = [_without_words(each, asked) for each in named]
    named = [each for each in named if each]
    topic = _TOPIC.match(text)
    if topic is None:
        return named
    wanted = topic[1].strip()
    inside = [each for each in named if each in wanted]
    return inside + named if inside else [wanted, *named]


def _without_words(name: str, beginnings: set[str]) -> str:
    words = name.split()
    while len(words) > 1 and any(plain(words[0])[:4] == each[:4] for each in beginnings):
        words = words[1:]
    return " ".join(words)


def _names(text: str) -> Iterator[tuple[int, str]]:
    for match in _NAME.finditer(text):
        words = match[0].split()
        begins = not _is_opener(words[0]) and (match.start() == 0 or text[: match.start()].rstrip()[-1:] in ".?!:")
        while words and _is_opener(words[0]):
            words = words[1:]
        if words and (not begins or len(words) > 1 or _is_subject(text[match.end() :])):
            yield match.start(), " ".join(words).strip(",. ")


def _is_subject(rest: str) -> bool:
    """Return whether a verb of being follows, so that the word before is a name though it begins the sentence."""
    return bool(
        re.match(
            r" (?:is|was|has|had|lies|are|were|jest|był|była|było|ma|leży|liczy|po raz|wrote|won|sang|made|built|to"
            r"|\w+ed"
            r"|\w+(?:ał|ała|ali|ił|iła|ili|ył|yła))\b|[.! ]*$",
            rest,
        )
    )


def _is_opener(word: str) -> bool:
    return plain(word).strip(",.'") in _OPENERS


def _of_role(history: Sequence[Turn], role: str) -> Iterator[str]:
    return (turn.text for turn in reversed(history) if turn.role == role)


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")")
