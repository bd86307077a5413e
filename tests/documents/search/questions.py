"""Passages and questions in English and Polish: questions that a passage answers, near misses, and other things."""

from __future__ import annotations

PASSAGES = {
    "en": [
        (
            "Lease",
            "Rent",
            "The monthly rent is 700 euros. It is due on the fifth day of each month and paid by bank transfer.",
        ),
        (
            "Lease",
            "Deposit",
            "The tenant pays a deposit of two months' rent, which is returned within thirty days after "
            "the keys are handed back.",
        ),
        (
            "Lease",
            "Notice",
            "Either party may end the lease in writing with three months' notice to the end of a calendar month.",
        ),
        (
            "Lease",
            "Pets",
            "Cats are permitted. Dogs need the landlord's written consent, which can be withdrawn if "
            "neighbours complain about barking.",
        ),
        (
            "Handbook",
            "Leave",
            "Full-time employees have 26 days of paid holiday a year. Unused days can be carried over "
            "until the end of March.",
        ),
        (
            "Handbook",
            "Sick leave",
            "Report illness to your manager by nine o'clock on the first day. A doctor's certificate "
            "is needed from the third day.",
        ),
        (
            "Handbook",
            "Travel",
            "Train tickets are second class. Hotels are reimbursed up to 120 euros a night with an invoice.",
        ),
        (
            "Handbook",
            "Laptops",
            "Company laptops are encrypted and locked after five minutes. Passwords have at least "
            "fourteen characters and are never shared.",
        ),
        (
            "Manual",
            "Cleaning",
            "Descale the coffee machine every two months with citric acid, and rinse the tank twice afterwards.",
        ),
        (
            "Manual",
            "Errors",
            "If the red light blinks, the water tank is empty. If it stays on, the brewing unit is "
            "blocked and must be taken out and washed.",
        ),
        (
            "Minutes",
            "Budget",
            "The board approved 48,000 zloty for the new playground and postponed the repair of the "
            "fence to next spring.",
        ),
        (
            "Minutes",
            "Election",
            "Anna Nowak was elected chair with 14 votes; Piotr Zielinski remains treasurer for another two years.",
        ),
    ],
    "pl": [
        (
            "Umowa",
            "Czynsz",
            "Czynsz wynosi 2500 zł miesięcznie i jest płatny przelewem do dziesiątego dnia każdego miesiąca.",
        ),
        (
            "Umowa",
            "Kaucja",
            "Najemca wpłaca kaucję w wysokości dwóch czynszów. Kaucja jest zwracana w ciągu miesiąca "
            "od oddania kluczy.",
        ),
        (
            "Umowa",
            "Wypowiedzenie",
            "Każda ze stron może wypowiedzieć umowę na piśmie z zachowaniem trzymiesięcznego okresu wypowiedzenia.",
        ),
        ("Umowa", "Zwierzęta", "W mieszkaniu wolno trzymać koty. Na psa potrzebna jest pisemna zgoda wynajmującego."),
        (
            "Regulamin",
            "Urlop",
            "Pracownikowi zatrudnionemu na pełny etat przysługuje 26 dni urlopu rocznie. Zaległy urlop "
            "trzeba wykorzystać do końca września.",
        ),
        (
            "Regulamin",
            "Choroba",
            "O chorobie należy powiadomić przełożonego pierwszego dnia do godziny dziewiątej. "
            "Zwolnienie lekarskie jest elektroniczne.",
        ),
        (
            "Regulamin",
            "Delegacje",
            "Za nocleg w podróży służbowej zwracamy do 400 zł na podstawie faktury. Bilety kolejowe "
            "kupujemy w drugiej klasie.",
        ),
        (
            "Regulamin",
            "Hasła",
            "Hasło ma co najmniej czternaście znaków i nie wolno go nikomu udostępniać. Laptop blokuje "
            "się po pięciu minutach.",
        ),
        (
            "Instrukcja",
            "Czyszczenie",
            "Ekspres należy odkamieniać co dwa miesiące kwaskiem cytrynowym, a potem dwukrotnie przepłukać zbiornik.",
        ),
        (
            "Instrukcja",
            "Usterki",
            "Gdy czerwona lampka miga, w zbiorniku brakuje wody. Gdy świeci stale, blok zaparzający jest zablokowany.",
        ),
        ("Protokół", "Budżet", "Zarząd przeznaczył 48 000 zł na nowy plac zabaw, a naprawę płotu przełożył na wiosnę."),
        (
            "Protokół",
            "Wybory",
            "Na przewodniczącą wybrano Annę Nowak czternastoma głosami. Skarbnikiem pozostaje Piotr Zieliński.",
        ),
    ],
}
"""Passages of files: two headings, and the text."""
ANSWERED = {
    "en": [
        "When do I have to pay the rent?",
        "How much is the monthly rent?",
        "When do I get my deposit back?",
        "How can I terminate the lease?",
        "Am I allowed to keep a dog?",
        "How many vacation days do I get?",
        "Until when can I use last year's leave?",
        "I am ill, what do I have to do?",
        "What is the limit for hotel costs?",
        "How long must a password be?",
        "How often should I decalcify the machine?",
        "What does the flashing red lamp mean?",
        "How much money is spent on the playground?",
        "Who is the treasurer?",
        "Who won the vote for chair?",
        "Which class may I book on the train?",
    ],
    "pl": [
        "Kiedy muszę zapłacić czynsz?",
        "Ile wynosi czynsz?",
        "Kiedy odzyskam kaucję?",
        "Jak mogę rozwiązać umowę najmu?",
        "Czy mogę trzymać psa?",
        "Ile dni wakacji mi przysługuje?",
        "Do kiedy muszę wybrać zaległe urlopy?",
        "Jestem chory, co mam zrobić?",
        "Jaki jest limit na hotel w delegacji?",
        "Jak długie musi być hasło?",
        "Jak często odkamieniać ekspres?",
        "Co oznacza migająca lampka?",
        "Ile pieniędzy przeznaczono na plac zabaw?",
        "Kto jest skarbnikiem?",
        "Kogo wybrano na przewodniczącą?",
        "Którą klasą mogę jechać pociągiem?",
    ],
}
NEAR = {
    "en": [
        "Who pays for a broken window?",
        "May I sublet the flat to a friend?",
        "How many days of parental leave are there?",
        "What is the per diem for food on business trips?",
        "How loud is the coffee machine?",
        "Who is the secretary of the board?",
    ],
    "pl": [
        "Kto płaci za wybitą szybę?",
        "Czy mogę podnająć mieszkanie koledze?",
        "Ile trwa urlop ojcowski?",
        "Ile wynosi dieta na jedzenie w delegacji?",
        "Jak głośny jest ekspres?",
        "Kto jest sekretarzem zarządu?",
    ],
}
"""Questions about something that the passages are about, and that none of them answers."""
OTHER = {
    "en": [
        "What is the capital of France?",
        "How do I bake sourdough bread?",
        "Who wrote Pan Tadeusz?",
        "Explain the theory of relativity.",
        "What is the weather like in Warsaw tomorrow?",
        "Which planet is the largest?",
        "Write a poem about the sea.",
        "How does photosynthesis work?",
        "What is the share price of Apple?",
        "Hello, how are you?",
        "Translate 'good morning' into German.",
        "What causes earthquakes?",
    ],
    "pl": [
        "Jaka jest stolica Francji?",
        "Jak upiec chleb na zakwasie?",
        "Kto napisał Pana Tadeusza?",
        "Wyjaśnij teorię względności.",
        "Jaka jutro będzie pogoda w Warszawie?",
        "Która planeta jest największa?",
        "Napisz wiersz o morzu.",
        "Na czym polega fotosynteza?",
        "Ile kosztują akcje Apple?",
        "Cześć, co słychać?",
        "Przetłumacz 'dzień dobry' na niemiecki.",
        "Co powoduje trzęsienia ziemi?",
    ],
}
"""Questions about things that the passages are not about."""
