"""Lists the mathematics tool's sentences for people, in English and Polish, for errors and results."""

from __future__ import annotations

from assistant.tools.sentences import Sentence

UNREADABLE = Sentence(
    "The expression can't be read at “{at}”.",
    "Nie rozumiem wyrażenia w miejscu „{at}”.",
)
INCOMPLETE = Sentence("The expression is not complete.", "Wyrażenie jest niepełne.")
UNKNOWN_NAME = Sentence("“{name}” is not a known function or variable.", "„{name}” nie jest znaną funkcją ani zmienną.")
NO_CALCULATION = Sentence(
    "No calculation can be read in “{question}”. Please write it as a formula, as 15% * 240 or x^2 - 4 = 0.",
    "Nie umiem odczytać działania z pytania „{question}”. Zapisz je wzorem, np. 15% * 240 albo x^2 - 4 = 0.",
)
AMBIGUOUS_COMMA = Sentence(
    "The comma in “{at}” may separate decimals or arguments; separate arguments with a semicolon.",
    "Przecinek w „{at}” może oddzielać ułamek dziesiętny albo argumenty; argumenty rozdziel średnikiem.",
)
ARGUMENT_COUNT = Sentence("“{name}” has a wrong number of arguments.", "„{name}” ma złą liczbę argumentów.")
TOO_LONG = Sentence("The expression is too long.", "Wyrażenie jest zbyt długie.")
TOO_BIG = Sentence("The numbers in this calculation would be too large.", "Liczby w tym obliczeniu byłyby zbyt duże.")
TOO_HARD = Sentence(
    "This calculation takes more time or memory than is allowed.",
    "To obliczenie wymaga więcej czasu lub pamięci, niż jest dozwolone.",
)
UNDEFINED = Sentence("The result is not defined.", "Wynik jest nieokreślony.")
NO_EQUATION = Sentence("This is an equation; an expression is needed.", "To jest równanie, a potrzebne jest wyrażenie.")
NO_VARIABLE = Sentence("There is no variable to solve for.", "Nie ma niewiadomej.")
NO_CLOSED_FORM = Sentence("No closed form was found.", "Nie znaleziono rozwiązania w postaci wzoru.")
ONE_VARIABLE = Sentence(
    "Only functions of one variable can be plotted.", "Wykres można narysować tylko dla funkcji jednej zmiennej."
)
WRONG_RANGE = Sentence(
    "The range must go from a smaller number to a larger one.",
    "Zakres musi prowadzić od mniejszej liczby do większej.",
)
