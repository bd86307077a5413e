"""Cues: groups of English and Polish word stems and patterns that point to a tool. Features of the classifier.

Patterns match the normal form of a text (`normal_form.plain`): lower case, no diacritics.
"""

from __future__ import annotations

import re

from assistant.routing.normal_form import plain

_DRAW = (
    r"draw|paint|sketch|illustrate|render|visuali[sz]e|doodle|photoshop|narysuj\w*|rysuj|namaluj\w*|maluj"
    r"|naszkicuj|wygeneruj|wyrenderuj"
    r"|zilustruj|zwizualizuj|dorysuj|domaluj|przerysuj|zaprojektuj"
)
_ASK = (
    r"please |now |can you |could you |would you |will you |i want you to |i'd like you to |kindly |hey |hi "
    r"|hello |ok |just "
    r"|prosze |czy |mozesz |moglbys |moglabys |teraz |chce,? zebys |hej |czesc |poprosze |and |a |mi "
)
_MAKE = (
    r"generate|create|make|design|produce|give|need|want|love|like|get|show|imagine|prepare|turn|zrob|stworz|utworz"
    r"|przygotuj|daj|pokaz|potrzebuje|chce|chcialabym|chcialbym|poprosze|wykonaj|wymysl|prosze"
)
_PICTURE = (
    r"image|picture|photo|photograph|drawing|painting|illustration|logo|poster|wallpaper|portrait|avatar|icon|banner"
    r"|artwork|art|cartoon|comic|meme|sticker|graphic|sketch|caricature|mural|thumbnail|postcard|cover|pic|tattoo"
    r"|clipart|infographic|landscape|mandala|emblem|mascot"
)
_PICTURE_PL = (
    r"obraz(?:ek|ka|ki|u|y)?|zdjeci\w+|grafik\w+|ilustracj\w+|rysun\w+|logo|logotyp\w*|plakat\w*|tapet\w+|portret\w*"
    r"|awatar\w*|ikon[aeky]\w*|szkic\w*|karykatur\w+|kolorowank\w+|mem[ay]?|komiks\w*|okladk\w+|pocztowk\w+|kartk[ae]"
    r"|wizualizacj\w+|akwarel\w+|pejzaz\w*|fotk\w+|fotografi\w+|baner\w*|naklejk\w+|malowidl\w+|maskotk\w+"
)
_STYLE = (
    r"watercolou?r|oil painting|oil on canvas|pixel art|photo-?realis\w+|fotorealis\w+|concept art|cyberpunk"
    r"|anime|manga"
    r"|art deco|impressionis\w+|impresjoni\w+|surreal\w+|cubis\w+|kubi\w+|3d|4k|8k|hd|minimalist\w*|vintage|neon"
    r"|in the style of|style|w stylu|stylu|olej na plotnie|olowkiem|akwarel\w+|black and white|czarno-bial\w+"
    r"|colou?ring page|wide angle|close-?up|ujecie"
)
TIME = (
    r"now|right now|rn|today|tonight|tomorrow|weekend|this (?:week|morning|afternoon|evening)|next (?:week|few days)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|at the moment|currently|overnight|later|next \w+ days|hourly"
    r"|teraz|dzis|dzisiaj|dzisiejsz\w+|jutro|jutrzejsz\w+|jutra|pojutrze|weekend\w*|w (?:tej chwili|tym tygodniu)"
    r"|obecnie"
    r"|aktualn\w+|poniedzial\w+|wtor(?:ek|ku)|srod[aey]|czwart(?:ek|ku)|piat(?:ek|ku)|sobot[aey]|niedziel[aei]"
    r"|rano|wieczor\w*|w nocy|po poludniu|dzien|dni|najblizsz\w+|przyszly\w*|swicie"
)
_WEATHER = (
    r"weather\w*|forecast\w*|umbrella|raincoat|temperatures?|humid\w*|meteo\w*|pogod\w*|prognoz\w+|parasol\w*"
    r"|temperatur\w*|wilgotn\w+|aur[ay]|cisnieni\w+|termomet\w+|zachmurz\w+|opad\w*|degrees|stopni|uv|barbecue"
    r"|grill\w*"
    r"|na dworze|na zewnatrz|outside|outdoors|pollen|air quality|sunrise|sunset|wschod slonca|zachod slonca"
    r"|wind chill"
)
_SKY = (
    r"rain\w*|snow(?:s|ing|y|fall)?|sunny|sun|sunshine|cloud\w*|overcast|drizzl\w+|hail\w*|fog\w*|storm\w*|thunder\w*"
    r"|hurricane|wind|winds|windy|freez\w+|frost\w*|heat ?wave|hot|cold|warm|chilly|cool|dry|wet|pour|pouring"
    r"|slippery"
    r"|below zero|icy|shower|showers|muggy|mild|blizzard|deszcz\w*|pada\w*|popada|leje|lac|lalo|ulew\w*|snieg\w*"
    r"|sniez\w*"
    r"|slon[ce]\w*|pochmurn\w*|chmur\w*|burz\w+|wiatr\w*|wieje|wial\w*|wiac|mroz\w*|mrozn\w*|przymroz\w*|upal\w*"
    r"|gorac\w+"
    r"|zimno|cieplo|chlodn\w+|mgl\w+|grad|slisk\w+|opala\w+|mokro|sucho|wichur\w*|ulewn\w*|plaz\w*|zawieje"
    r"|zamiec\w*|gololedz\w*|parno|duszno|skwar"
)
_CLOTHES = (
    r"jacket|coat|sweater|gloves|sunscreen|sunglasses|boots|wear|dress warm\w*|kurtk\w+|ubrac|plaszcz\w*|czapk\w+"
    r"|kalosz\w*"
    r"|okular\w+ przeciwslon\w+|krem z filtrem|swet(?:er|ra)|rekawiczk\w+|szalik\w*|laundry|washing|pranie|kite"
    r"|picnic|piknik\w*"
)
_MATHS = (
    r"deriv\w+|differentiat\w+|integra\w+|antiderivative|solve|equation\w*|simplif\w+|factor(?:i[sz]e|ial|s)?|expand"
    r"|evaluate|calculate|compute|plot|sqrt|square root|cube root|percent\w*|divided by|multipl\w+|times|plus|minus"
    r"|squared|cubed|prime|determinant|matrix|logarithm|cosine|sine|tangent|average|perimeter|circumference"
    r"|hypotenuse"
    r"|sum of|product of|quotient|remainder|lcm|gcd|limit of|roots of|how much is|modulo|to the power|pochodn\w+"
    r"|calk\w+"
    r"|rozwiaz\w*|rownan\w+|upros\w+|czynnik\w*|oblicz\w*|policz\w*|ile to|ile wynosi|ile jest|wykres\w*|pierwiast\w+"
    r"|silni\w*|logarytm\w*|poteg\w*|procent\w*|iloczyn\w*|iloraz\w*|sredni[aą]|pole|objetosc\w*|obwod\w*|podziel\w*"
    r"|podzielic|razy|pomnoz\w*|odejmij|dodaj|granic[aey]|zerowe|nwd|nww|macierz\w*|wyznacznik\w*|ulamk\w+"
    r"|przekatn\w+"
    r"|przeciwprostokatn\w+|srednic\w+|promien\w*|kwadrat\w*|szescian\w*|delta|scalkuj|zrozniczkuj|rozniczk\w+"
)
_QUANTITY = (
    r"\d[\d.,]*\s?(?:%|percent|procent|zl|eur|usd|km|cm|mm|m|kg|g|l|miles?|hours?|godzin\w*|minut\w*|kph|mph"
    r"|people|osob\w*)"
    r"|\$\d+|[€£]\d+|half of|quarters?|thirds?|fifths?|dwie trzecie|jedna \w+a|polow\w+|tip|interest|compounded"
    r"|discount"
    r"|rabat\w*|vat|lokat\w+|oprocentowan\w+|speed|predkosc\w*|area|volume|radius|convert|zamien|przelicz"
)
_SYMBOLS = (
    r"\d\s*[-+*/^×÷:·]\s*\(?\d|\b[a-z]\s?[\^²³]\s?\d*|\d[xyzn]\b|\b[xyzabn]\s*[-+=*/]\s*[\dxyzabn]|\)\s*[-+*/^=]"
    r"|[=√∫π≤≥²³]"
    r"|\b(?:sin|cos|tan|tg|ctg|ln|log\d*|exp|sqrt|f)\s?\(?[\dxyz(]|\d\s?%\s(?:of|z)\b|\d!|\bd[xyt]\b|\b2?pi\b"
)
_FACT_START = (
    r"^(?:and |so |a |i )?(?:what (?:is|are|was|were|causes?|caused)\b|who|whose|whom|when|where|which|what(?:'s"
    r"| is| are| was| were)? (?:the )?(?:capital"
    r"|population|origin"
    r"|name|longest|tallest|highest|largest|biggest|smallest|oldest|currency|official|national|real name)"
    r"|how (?:tall|old|long|deep|far|high|large|big|heavy|many (?:people|inhabitants|islands|wives|children|moons"
    r"|countries|species|times has))"
    r"|kim|kto|kogo|kiedy|gdzie|ktor\w+|w ktorym|w jakim|czyim|skad|jak (?:wysok\w+|dlug\w+|glebok\w+|star\w+"
    r"|duz\w+|daleko)"
    r"|ilu|ile (?:lat|mieszkanc\w+|osob|dzieci|wysp|ksiezyc\w+|ma)|jak[aie]+ (?:jest|sa|byl\w*|panstwa) )"
)
_FACT = (
    r"capital of|population|founded|invented|inventor|discovered|born|died|wrote|painted|composed|directed|built"
    r"|signed|war|battle"
    r"|treaty|empire|dynasty|king|queen|emperor|president|century|ancient|history|biography|life of|article|wikipedia"
    r"|encyclop\w+|species|animal|planet|river|lake|mountain|island|novel|author|founder|border\w*|ever recorded"
    r"|background on|read about|tell me about|look up|facts about|learn about|known for|famous for|happened|origin"
    r"|stolic\w+|mieszkanc\w+|zalozy\w+|zalozon\w+|wynalaz\w+|odkry\w+|urodzi\w+|zmarl\w*|umarl\w*|napisal\w*"
    r"|namalowal\w*"
    r"|skomponowal\w*|wyrezyserowal\w*|zbudow\w+|podpisan\w+|wojn\w+|bitw\w+|traktat\w*|powstani\w+|imperium"
    r"|dynasti\w+"
    r"|krol\w*|cesarz\w*|prezydent\w*|wiek\w*|histori[aei]\w*|biografi\w+|zycie|zyciorys\w*|wikipedi\w+"
    r"|encykloped\w+|gatun\w+"
    r"|zwierze|planet\w+|rzek[aię]|jezior\w*|gor[aey]|wyspa?|powiesc\w*|autor\w*|panowal\w*|opowiedz (?:mi )?o"
    r"|informacj\w+ o"
    r"|wybuchl\w*|lezy|pochodzi|pochowan\w+|zaslyn\w+|slynie|znan[ay] z|powstal\w*|na czym polega\w*"
    r"|co to (?:jest|sa|za|byl\w*)"
    r"|czym (?:jest|sa|byl\w*|zajmowal\w*)|najwyzsz\w+|najdluzsz\w+|najwieksz\w+|najglebsz\w+|najstarsz\w+"
)
_DOCUMENT = (
    r"documents?|files?|pdfs?|contract|handbook|manual|report|spreadsheet|invoices?|lease|agreement|polic(?:y"
    r"|ies)|minutes"
    r"|notes|paper|thesis|knowledge base|scan|scanned|page|section|clause|chapter|appendix|statement|brochure|slides"
    r"|presentation|folder|data ?sheet|transcript|tender|offers?|memo|letter|doc|docs|docx|xlsx|archive|receipts?"
    r"|cv|resume"
    r"|dokument\w*|plik\w*|zalaczni\w*|zalaczon\w+|umow\w+|regulamin\w*|instrukcj\w+|raport\w*|arkusz\w*"
    r"|faktur\w*|notat\w+"
    r"|protokol\w*|skan\w*|stronie|strona|paragraf\w*|punkt\w*|statut\w*|baz\w+ wiedzy|polis\w*|prezentacj\w+"
    r"|folder\w*|ofert\w*"
    r"|kosztorys\w*|prac[ya] magistersk\w*|karta katalogowa|sprawozdani\w+|rozdzial\w*|pism\w+|aneks\w*|wyciag\w*"
    r"|materialach"
)
_OWN = (
    r"(?:i|we|you) (?:'ve |have |had )?(?:just )?(?:uploaded|attached|sent|gave|shared|added|provided|imported)"
    r"|uploaded|attached|attachment|enclosed|my (?:\w+ )?"
    r"(?:files?|documents?|folder|contract|lease|notes|rental|agreement|pdfs?|insurance|policy|report|thesis|cv"
    r"|payslip|drive)"
    r"|our (?:\w+ )?(?:handbook|policy|contract|documents?|files?|notes|manual|wiki|rules|guidelines|statutes"
    r"|agreement|report|minutes)"
    r"|according to (?:the|my|our|this)|from the knowledge base|in the (?:meeting )?notes|search (?:my|our|the)"
    r"|meeting notes|przeszukaj\w*|odszukaj"
    r"|ktor[yae] ci|ktore ci|ci wyslal\w*|z bazy wiedzy|zobacz w|sprawdz w (?:notatkach|umowie|plikach"
    r"|dokumentach|regulaminie|raporcie)|wgra\w+|przesla\w+|dolacz\w+|zalacz\w+|wyslal\w*|podesla\w+|dodal\w*"
    r"|wrzuci\w+|udostepni\w+"
    r"|(?:moj\w+|nasz\w+|swoj\w+) (?:\w+ )?(?:plik\w*|dokument\w*|umow\w*|notat\w*|regulamin\w*|polis\w*"
    r"|faktur\w*|raport\w*)"
    r"|zgodnie z|wedlug|na podstawie|w plikach|z plik\w+|w dokument\w*|z dokument\w*|mojej|naszego|naszej"
)
_WRITE = (
    r"write|rewrite|compose|draft|poems?|essay|e-?mail|story|jokes?|haiku|limerick|songs?|lyrics|speech|translate"
    r"|rephrase"
    r"|paraphrase|proofread|grammar|tweet|slogan|dialogue|shorter|longer|formal|friendlier|tone|rhyme\w*|caption"
    r"|riddle"
    r"|cover letter|blog post|toast|napisz|napisac|wiersz\w*|opowiadani\w+|mail\w*|zart\w*|dowcip\w*|przetlumacz"
    r"|popraw|formaln\w+"
    r"|krocej|dluzej|zyczeni\w+|rozprawk\w+|wypracowani\w+|limeryk|synonim\w*|zredaguj|sparafrazuj|slowami"
    r"|rymowan\w*|haslo"
    r"|przemowieni\w+|piosenk\w*|zagadk\w+|list motywacyjny|in words|paragraphs?|synonyms?|wzor umowy|opis"
)
_WRITE_FIRST = (
    r"write|rewrite|compose|draft|translate|rephrase|paraphrase|proofread|fix|correct|edit|shorten"
    r"|summari[sz]e (?:this|that|the following)"
    r"|poem|essay|joke|haiku|story|tell me (?:a|another) (?:joke|story|riddle)|suggest|recommend|brainstorm"
    r"|napisz|napisac|przetlumacz"
    r"|popraw|skroc|przeredaguj|wymysl|zaproponuj|polec|poradz|opowiedz (?:mi )?(?:dowcip|zart|bajke)|uloz"
    r"|podaj \w+ (?:synonim|pomysl|przyklad)\w*"
    r"|wytlumacz|wyjasnij|explain|streszcz to|dokoncz|wiersz|opowiadanie|limeryk"
)
_HOWTO_FIRST = (
    r"how (?:do|can|should|would|to|could) ?(?:i|you|we|one)?\b|how to|what(?:'s| is) the best (?:way|time)"
    r"|why (?:is|does|do|are|won't|can't) (?:my|our|you)"
    r"|which \w+ (?:should|would|is best|are best)|what should i (?:do|say|cook|eat|read|watch|buy)"
    r"|jak (?:sie )?(?:\w+ )?(?:\w+c)\b"
    r"|jak (?:mam|moge|najlepiej)|dlaczego (?:moj|moja|moje|nie)|jaki\w* (?:\w+ )?(?:polecasz|wybrac|kupic)"
    r"|co (?:mam|powinienem|powinnam|zrobic|ugotowac|sadzisz|myslisz)"
    r"|czy (?:lepiej|warto|powinienem|powinnam)|what do you think|do you (?:like|think|prefer)|should (?:i"
    r"|we) (?!.*(?:umbrella|jacket|coat|wear))"
)
_CODE = (
    r"code|function (?:in|that)|python|javascript|typescript|java|sql|api|apis|endpoint\w*|librar\w+|scripts?|bug"
    r"|regex|html|css"
    r"|docker|git|bash|linux\w*|rust|postgres\w*|c\+\+|class|database|json|excel|react|debug|compile\w*"
    r"|programming|kod\w*"
    r"|funkcje w|skrypt\w*|bibliotek\w+|javascripci\w+|pythoni\w+|zapytani\w+ sql|program\w*|aplikacj\w+"
    r"|framework\w*|baz\w+ danych"
)
_SOCIAL = (
    r"^(?:hello|hi|hey|thanks?|thank you|bye|good (?:morning|evening|night)|czesc|hej|dzien dobry|dobry wieczor"
    r"|dziek\w+|super"
    r"|ok|okay|great|cool|swietnie|witaj|siema|do widzenia|pa)\b|how are you|are you (?:an? )?(?:ai|human|robot"
    r"|real)|who are you|what can you do"
    r"|what's up|bored|let's (?:chat|talk)|co u ciebie|co slychac|jak sie masz|jestes|nudzi|pogadajmy|pogadamy"
    r"|kim jestes"
    r"|co potrafisz|dzieki|dziekuje|thanks|thank you|cheer me up|pociesz|i'm|boje sie|feel|feeling|scared|worried"
    r"|sad|dola|smutno|przykro"
)
_ADVICE = (
    r"recommend\w*|suggest\w*|advice|advise|tips?|ideas?|explain\w*|think|opinion|best|better|should i|how (?:do"
    r"|can|should|would) (?:i|you|we)"
    r"|how to|why|pros and cons|mean|meaning|idiom|difference between|help me|name for|names?|plan|recipe|cook"
    r"|brainstorm|improve"
    r"|polec\w*|porad\w*|doradz\w*|wytlumacz\w*|wyjasnij\w*|znaczy|powiedzeni\w+|przyslowi\w+|sadzisz|myslisz"
    r"|uwazasz|pomysl\w*|lepsz\w+|lepiej"
    r"|jak (?:sie )?\w+c\b|jak mam|jak moge|dlaczego|czemu|nazwe|przepis\w*|ugotow\w+|plan\b|uloz|na co zwrocic"
    r"|roznic\w+|warto|ktory \w+ kupic|conclusions?|wniosk\w+"
)

GROUPS = {
    "image.draw": re.compile(rf"\b(?:{_DRAW})\b"),
    "image.first": re.compile(
        rf"(?:^|[,.!?] )(?:{_ASK})*(?:{_DRAW}|(?:na|wy|za)(?:rysowac|malowac|szkicowac|generowac|projektowac"
        rf"|renderowac))\b"
        r"(?!.{0,30}(?:conclusion|wnios|in words|slowami|parallel|attention|comparison|porowna|distinction"
        r"|the line|lots))"
    ),
    "image.make": re.compile(rf"\b(?:{_MAKE})\b.{{0,40}}\b(?:{_PICTURE}|{_PICTURE_PL})\b"),
    "image.picture": re.compile(rf"\b(?:{_PICTURE}|{_PICTURE_PL})s?\b"),
    "image.style": re.compile(rf"\b(?:{_STYLE})\b"),
    "weather.word": re.compile(rf"\b(?:{_WEATHER})\b"),
    "weather.sky": re.compile(rf"\b(?:{_SKY})\b"),
    "weather.clothes": re.compile(rf"\b(?:{_CLOTHES})\b"),
    "time": re.compile(rf"\b(?:{TIME})\b"),
    "math.word": re.compile(rf"\b(?:{_MATHS})\b"),
    "math.quantity": re.compile(rf"(?:^|\b|(?<=\s))(?:{_QUANTITY})"),
    "math.symbol": re.compile(_SYMBOLS),
    "math.digit": re.compile(r"\d"),
    "wikipedia.question": re.compile(_FACT_START),
    "wikipedia.fact": re.compile(rf"\b(?:{_FACT})\b"),
    "documents.word": re.compile(rf"\b(?:{_DOCUMENT})\b"),
    "documents.own": re.compile(rf"\b(?:{_OWN})\b"),
    "none.write": re.compile(rf"\b(?:{_WRITE})\b"),
    "none.write.first": re.compile(rf"^(?:{_ASK}|help me (?:to )?|pomoz mi |short |krotki\w* )*(?:{_WRITE_FIRST})\b"),
    "none.howto.first": re.compile(rf"^(?:{_ASK}|so )*(?:{_HOWTO_FIRST})"),
    "none.code": re.compile(rf"\b(?:{_CODE})(?!\w)"),
    "none.social": re.compile(_SOCIAL),
    "none.advice": re.compile(rf"\b(?:{_ADVICE})\b"),
}
"""Patterns by group."""

_NAME = re.compile(r"(?<=[\w,;] )[A-ZÀ-Ž][\w'-]+")
"""A capitalised word that does not begin a sentence."""
_PLACE = re.compile(r"\b(?:in|at|for|near|to|w|we|na|dla|nad|pod|do|kolo)\s+(?:the\s+)?[A-ZÀ-Ž][\w-]+", re.UNICODE)


def cues(text: str) -> dict[str, float]:
    """Return the cues of a question: for each group how many matches it has, at most 3, and what names it has."""
    normal = plain(text)
    found = {name: float(min(3, len(pattern.findall(normal)))) for name, pattern in GROUPS.items()}
    found["name"] = float(bool(_NAME.search(text)))
    found["place"] = float(bool(_PLACE.search(text)))
    found["none"] = float(not any(found.values()))
    sky = found["weather.word"] + found["weather.sky"] + found["weather.clothes"] > 0
    found["weather.place"] = float(sky and found["place"] > 0)
    found["weather.time"] = float(sky and found["time"] > 0)
    found["documents.both"] = float(found["documents.word"] > 0 and found["documents.own"] > 0)
    return {name: value for name, value in found.items() if value}
