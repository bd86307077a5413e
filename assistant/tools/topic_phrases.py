"""Lists the phrases that frame the topic of an English or Polish question: requests, question words, verbs."""

from __future__ import annotations

import re

from assistant.tools.folding import lenient_pattern

_POLITE = (
    r"please|can you|could you|would you|do you know|hey|hi|hello|ok(?:ay)?|so|well|good (?:morning|evening)|just"
    r"|i wonder"
    r"|i was wondering|(?:quick )?question|my \w+ (?:asks|wants to know)"
    r"|proszę|czy (?:możesz|mógłbyś|mogłabyś|wiesz)|możesz|mógłbyś|mogłabyś|wiesz|hej|cześć|dzień dobry|witaj|mi|nam"
    r"|wyjaśnij|wytłumacz|dziecku|powiedzieć|opowiedzieć|wyjaśnić"
)
_REQUEST = (
    r"(?:tell|teach|show|give|get|read|find|write)(?: me| us)?|look up|search(?: for)?|find out|explain|describe|define"
    r"|summari[sz]e|i(?:'d| would)? (?:like|love|want|need) to|i(?:'m| am) interested in|know|learn|hear|read"
    r"|what (?:do you know|can you tell me|is known)|have you heard"
    r"|(?:opowiedz|powiedz|napisz|podaj|przeczytaj|pokaż|znajdź|wyszukaj|poszukaj|sprawdź|opisz|zdefiniuj|streść)"
    r"(?: mi| nam)?|co (?:wiesz|możesz (?:mi )?powiedzieć)|interesuje mnie"
    r"|(?:chciał(?:bym|abym)|chcę)(?: się)? (?:dowiedzieć|wiedzieć|poczytać|przeczytać|posłuchać)(?: się)?"
)
_AMOUNT = (
    r"(?:something|anything|more|some|a|an|the|short|brief|quick|little|bit|few|summary|overview|introduction|background"
    r"|information|info|facts?|articles?|meaning|definition|word|term"
    r"|coś|czegoś|więcej|trochę|krótko|informacj[eiaę]|artykuł\w?|hasł[oa]|definicj[eę]|kilka|słów|znaczenie)"
)
_ABOUT = r"(?:about|on|of|for|to me|o|na temat)"
FRAME = lenient_pattern(
    rf"^(?:(?:{_POLITE})\b[\s,:!]*|(?:{_REQUEST})\b[\s,:]*(?:(?:about|to me|o|na temat)\s+)?"
    rf"|(?:{_AMOUNT}\s+){{1,5}}{_ABOUT}\s+|(?:about|hasło|pojęcie|artykuł)\s+)",
    re.IGNORECASE,
)
"""A phrase of politeness or request at the beginning, or one of how much is wanted ("a short summary of")."""
WIKIPEDIA = lenient_pattern(
    r"\b(?:(?:according to|on|in|from|at|using|w|na|według|z)\s+)?(?:the\s+)?wikipedi\w*\b\s*(?:article|artykuł)?"
    r"\s*(?:\b(?:about|on|o)\b)?",
    re.IGNORECASE,
)
ARTICLE = lenient_pattern(r"^(?:(?:the|an?|exactly|currently|obecnie|ten|ta|to|te|cały|cała|całe)\s+)+(?=\S)")
INITIAL_ARTICLE = lenient_pattern(r"^(?:The|An?)\s+(?=\S)")
SECOND_CLAUSE = lenient_pattern(
    r"[,;]?\s+(?:and|i|oraz|a)\s+(?:why|what|how|when|where|who|which|dlaczego|skąd|po co|co|jak|kiedy|gdzie|kto|kim"
    r"|czym|ilu|ile|któr\w{1,3})\b.*$",
    re.IGNORECASE,
)
"""A second question behind the first."""
QUESTION_WORD = lenient_pattern(
    r"^(?:(?:in|on|at|from|na|w|we|z|ze|do|od|o|po)\s+)?(?:who|what|when|where|why|how|which|whose|kto|kim|kogo|komu|co|czym"
    r"|czego|kiedy|gdzie|skąd|dlaczego|czemu|jak\w{0,3}|któr\w{1,3}|ile|ilu)\b",
    re.IGNORECASE,
)

_BE = r"(?:is|are|was|were)"
_POLISH_BE = r"(?:jest|są|był[aoiy]?|byli)"
INVERTED = (
    lenient_pattern(
        rf"^(?:who|what|where)\s+(?!{_BE}\b)(?P<topic>\S.*?)\s+(?:{_BE}|means?|stands? for)$", re.IGNORECASE
    ),
    lenient_pattern(rf"^(?:kim|czym|co to)\s+(?!{_POLISH_BE}\b)(?P<topic>\S.*?)\s+{_POLISH_BE}$", re.IGNORECASE),
)
"""Questions in the order of a clause: "who Nikola Tesla was"."""
DEFINITIONS = tuple(
    lenient_pattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"^(?:who|what)(?:['’]?s|\s+{_BE})\s+(?:(?:the\s+)?(?:meaning|definition)\s+of\s+)?",
        r"^what\s+happened\s+(?:at|in|to|during|on|with)\s+",
        r"^(?:who|what)\s+(?:(?:first|originally|really)\s+)?"
        r"(?!(?:do|does|did|can|will|has|have|if|about|kind|type|sort|language|year)\b)[a-z]+(?:ed|s|t|d|e|n|m|g|w)\s+"
        r"(?!(?:is|are|was|were|do|does|did|of)\b)",
        rf"^(?:kim|czym)\s+(?:z zawodu\s+)?{_POLISH_BE}\s+",
        rf"^(?:kto|co)\s+to\s+(?:za\s+\w+\s+)?(?:{_POLISH_BE}\s+)?",
        rf"^(?:kto|jak[ai]e?|który|która)\s+{_POLISH_BE}\s+",
        r"^co\s+(?:się\s+)?(?:stało|wydarzyło)\s+(?:się\s+)?(?:(?:w|we|z|ze|na|pod)\s+)?",
        r"^(?:co|kto)\s+\w+\s+(?!się\b)",
    )
)
"""Beginnings of questions whose whole rest is the topic."""

_POLISH_VERB = (
    r"(?:jest|są|ma|mają|leż[yą]|leżą|żyj[eą]|znajduj[eą]|mieszka(?:ją)?|działa\w*|powstaj[eą]|pochodz[ią]|płyni?[eą]|roś?n[ieą]+"
    r"|występuj[eą]|oznacza\w*|znaczy|polega\w*|służ[yą]|składa\w*|różni\w*|mówi\w*|należ[yą]\w*|zajmuj[eą]|nazywa\w*"
    r"|wygląda\w*|trwa\w*|liczy|można|odbywa\w*|[^\W\d_]{2,}(?:ł|ła|ło|li|ły|ano|ono|eto|yto|ęto|uto))"
)
_AUXILIARY = r"(?:is|are|was|were|did|does|do|has|have|can|will)"
_WH = r"(?:(?:in|on|at|from|to)\s+)?(?:when|where|why|how|which|what)"
_POLISH_WH = (
    r"(?:(?:na|w|we|z|ze|do|od|o|po|dla)\s+)?(?:kiedy|gdzie|skąd|dlaczego|czemu|jak\w{0,3}"
    r"|któr\w{1,3}|ile|ilu|czym|czego|co|kto)"
)
_POLISH_WH_OF_CLAUSE = r"(?:od |do )?(?:kiedy|gdzie|skąd|dlaczego|czemu)"
ADVERBIALS = tuple(
    lenient_pattern(pattern)
    for pattern in (
        rf"^(?i:{_POLISH_WH_OF_CLAUSE})\s+(?:się\s+)?(?:{_POLISH_VERB}\s+)?(?:się\s+)?",
        rf"^(?i:{_WH})(?:['’]s|\s+(?:(?!{_AUXILIARY}\b)[a-z]+\s+){{0,3}}{_AUXILIARY})\s+",
        rf"^(?i:{_WH})\s+",
        rf"^(?i:{_POLISH_WH})\s+(?:się\s+)?(?:(?!{_POLISH_VERB}\s)[a-ząćęłńóśźż]+\s+){{0,2}}{_POLISH_VERB}\s+(?:się\s+)?"
        r"(?:(?:do|w|we|na|z|ze|od)\s+)?",
        rf"^(?i:{_POLISH_WH})\s+(?:się\s+)?",
        r"^(?i:is|are|was|were|did|does|do|czy)\s+",
    )
)
"""Beginnings of questions up to the subject of their clause; only the words for it may have capitals."""
_CAPITAL = r"[^\W\d_a-ząćęłńóśźżéèêëáàâäãåçñíìîïòôöõúùûüýÿøæœšžčřěůďť]"
NAME = lenient_pattern(
    rf"{_CAPITAL}[\w'’.-]*(?:\s+(?:(?:of|the|de|da|van|von|di|del|la|and|with|in|on|a|pod|nad|i|w)\s+){{0,2}}"
    rf"{_CAPITAL}[\w'’.-]*)*"
)
"""Words with capitals, and words without that join them."""
BEFORE_NAME = lenient_pattern(
    r"^(?:they|people|we|you|it|there|one|many|much|inhabitants|languages?|lives?|speak)\b|^[^\W\d_]+\s+(?:live|lives|speak)\b"
)
"""Subjects that say nothing without the name behind them: "people live in Tokyo"."""
VERB = re.compile(
    r"\s+(?:become|live|work|die|start|begin|end|happen|form|mean|come|go|fall|rise|grow|sleep|eat|make|look|move|change|say"
    r"|exist|function|originate|appear|disappear|cause|fly|spread|born|built|made|found|written|known|\w+ed"
    rf"|się\s+{_POLISH_VERB}|{_POLISH_VERB})\b.*$"
)
"""The verb of a clause, and what follows."""
AFTERTHOUGHT = lenient_pattern(r"(?<=\w{2}),\s+(?:[a-ząćęłńóśźż]|I\b).*$")
"""What follows the topic of a question behind a comma: "the mathematician", "because", "especially"."""
TRAILING = lenient_pattern(
    r"\s+(?:please|proszę|for me|to me|in short|in simple terms|simply|dla mnie|krótko|w skrócie|born|mean)$",
    re.IGNORECASE,
)
EMPTY = frozenset({
    "who", "what", "when", "where", "why", "how", "is", "are", "it", "that", "this", "he", "she", "they", "me", "you",
    "kto", "co", "kim", "czym", "kiedy", "gdzie", "jak", "to", "jest", "on", "ona", "ono", "oni", "nim", "niej", "tym",
    "mi", "był", "była", "było", "są", "was", "were", "about", "something", "coś", "o", "die", "did",
})  # fmt: skip
"""Words that are no topic by themselves."""
