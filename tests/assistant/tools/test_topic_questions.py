"""Topics of English and Polish questions."""

from __future__ import annotations

import time

import pytest

from assistant.tools.topic_questions import topic_arguments

QUESTIONS = """
Who was Albert Einstein? -> Albert Einstein
What is quantum entanglement? -> quantum entanglement
who's Ada Lovelace -> Ada Lovelace
What are tardigrades? -> tardigrades
Tell me about the Battle of Grunwald -> Battle of Grunwald
Can you tell me something about black holes, please? -> black holes
Look up Marie Curie on Wikipedia -> Marie Curie
Wikipedia: Great Wall of China -> Great Wall of China
wikipedia photosynthesis -> photosynthesis
When was Chopin born? -> Chopin
Where is Mount Kilimanjaro? -> Mount Kilimanjaro
Who invented the telephone? -> telephone
Explain the theory of relativity -> theory of relativity
What do you know about Warsaw? -> Warsaw
According to Wikipedia, what is jazz? -> jazz
The French Revolution -> French Revolution
Kim był Mikołaj Kopernik? -> Mikołaj Kopernik
kim jest Olga Tokarczuk -> Olga Tokarczuk
Czym jest fotosynteza? -> fotosynteza
Co to jest czarna dziura? -> czarna dziura
Co to są liczby pierwsze? -> liczby pierwsze
Kto to był Józef Piłsudski? -> Józef Piłsudski
Opowiedz mi o Krakowie -> Krakowie
Powiedz mi coś o powstaniu warszawskim -> powstaniu warszawskim
Co wiesz o Marii Skłodowskiej-Curie? -> Marii Skłodowskiej-Curie
Kiedy urodził się Fryderyk Chopin? -> Fryderyk Chopin
Gdzie leży Tatrzański Park Narodowy? -> Tatrzański Park Narodowy
Gdzie znajduje się Kilimandżaro? -> Kilimandżaro
Znajdź w Wikipedii hasło bitwa pod Grunwaldem -> bitwa pod Grunwaldem
Kto wynalazł telefon? -> telefon
Wyjaśnij, czym jest inflacja -> inflacja
Historia Polski -> Historia Polski
Will Smith -> Will Smith
How long do Greenland sharks live? -> Greenland sharks
The Lion, the Witch and the Wardrobe -> Lion, the Witch and the Wardrobe
Kto wyreżyserował Rejs, bo się sprzeczamy -> Rejs
co to jest zorza polarna i skąd się bierze -> zorza polarna
kim byl mikolaj kopernik -> mikolaj kopernik
gdzie lezy krakow -> krakow
dlaczego niebo jest niebieskie -> niebo
Czym różni się aligator od krokodyla? -> aligator od krokodyla
Is Pluto a planet? -> Pluto
Czy Pluton jest planetą? -> Pluton
Kim jest obecnie Robert Lewandowski? -> Robert Lewandowski
What Is Love -> Love
Who is J. K. Rowling? -> J. K. Rowling
What is the difference between DNA and RNA? -> difference between DNA and RNA
I'd like to read about the life of Katherine Johnson, the NASA mathematician -> life of Katherine Johnson
"""


@pytest.mark.parametrize("line", QUESTIONS.strip().splitlines())
def test_questions(line: str) -> None:
    question, _, topic = line.partition(" -> ")
    assert topic_arguments(question) == {"topic": topic}


@pytest.mark.parametrize(
    "question",
    [
        "",
        "???",
        "Who is he?",
        "When did he die?",
        "What time is it?",
        "Kto to?",
        "What is it?",
        "kim on jest",
        "wikipedia",
    ],
)
def test_questions_without_a_topic(question: str) -> None:
    assert topic_arguments(question) is None


@pytest.mark.parametrize(
    "piece",
    ["please ", "wikipedia ", "the ", "o ", "tell me ", " " * 50, "in ", "((", "A of ", "who is ", "jak ma ", "a, "],
)
def test_long_questions_take_no_time(piece: str) -> None:
    began = time.process_time()
    topic_arguments(piece * 50_000)
    assert time.process_time() - began < 0.2
