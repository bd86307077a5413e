"""Places that the stubs of geocoders know: names, countries and rounded populations, decoys among them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class KnownPlace:
    """A place as a geocoder has it. `polish` and `english` are its names in these languages."""

    id: int
    polish: str
    english: str
    country_code: str
    country: str
    population: int
    region: str = ""

    @property
    def latitude(self) -> float:
        return round(self.id / 100 % 90, 2)

    @property
    def longitude(self) -> float:
        return round(self.id / 10 % 180, 2)


_POLISH = """
Warszawa=Warsaw:1790658 Kraków=Krakow:779115 Łódź:677286 Wrocław:642869 Poznań:534813 Gdańsk:470907 Szczecin:401907
Bydgoszcz:348190 Lublin:339784 Białystok:297554 Katowice:292774 Gdynia:246348 Częstochowa:220433 Radom:211371
Sosnowiec:199974 Toruń:201447 Kielce:195774 Rzeszów:196208 Gliwice:179806 Zabrze:173374 Olsztyn:171979
Bielsko-Biała:170663 Zielona_Góra:141222 Rybnik:138696 Opole:128035 Tychy:127831 Gorzów_Wielkopolski:123609
Elbląg:119317 Dąbrowa_Górnicza:119373 Płock:119425 Wałbrzych:111356 Włocławek:109883 Tarnów:108470 Chorzów:108434
Koszalin:107048 Kalisz:100246 Legnica:99350 Grudziądz:94368 Jaworzno:91563 Słupsk:90681 Jastrzębie-Zdrój:88743
Nowy_Sącz:83813 Jelenia_Góra:79061 Siedlce:77990 Mysłowice:74618 Piła:73139 Ostrów_Wielkopolski:72050 Lubin:72428
Suwałki:69758 Inowrocław:72786 Stargard:67579 Gniezno:68217 Ostrowiec_Świętokrzyski:68529 Siemianowice_Śląskie:66513
Głogów:67317 Zakopane:27266 Sopot:35286 Kołobrzeg:46198 Świnoujście:40888 Zamość:63223 Przemyśl:60442 Chełm:61135
Ełk:62109 Łomża:62945 Stalowa_Wola:60179 Nowa_Sól:38493 Kędzierzyn-Koźle:60900 Ruda_Śląska:136423
Tarnowskie_Góry:61756 Piekary_Śląskie:54702 Wodzisław_Śląski:47992 Nowy_Targ:33357 Nowy_Dwór_Mazowiecki:28615
Nowe_Miasto_Lubawskie:10937 Wysokie_Mazowieckie:9281 Skarżysko-Kamienna:45220 Międzyzdroje:5405 Władysławowo:14892
Hel:3267 Ustka:15398 Łeba:3653 Wieliczka:23565 Krynica-Zdrój:10449 Kudowa-Zdrój:9864 Lądek-Zdrój:5500
Rabka-Zdrój:12778 Bochnia:29317 Wisła:11132 Jasło:34756 Krosno:46034 Kutno:43450 Mielec:60075 Żywiec:31194
Oświęcim:37738 Nysa:43849 Żary:37502 Ostróda:32799 Iława:33364 Starogard_Gdański:47775 Tczew:59111 Malbork:38031
Kazimierz_Dolny:2500 Limanowa:15071 Bystrzyca_Kłodzka:9899 Krasnystaw:18630 Brzeg:35380 Turek:26437
Bielsk_Podlaski:24883
Mikołajki:3852 Giżycko:29000 Augustów:29305 Hajnówka:20559 Sandomierz:23000 Kępno:14000 Swarzędz:30000 Śrem:29000
Jarocin:25700 Szczyrk:5700 Ciechocinek:10500 Darłowo:13400 Rewal:800 Dźwirzyno:900 Puck:11300 Jurata:600
"""
_DECOYS = """
Lądek:718 Władysławów:2700 Pile:212 Ostrów:950 Dąbrowa:3100 Brzegi:900 Nowe:6200 Bielsk:1900 Krakowiany:120 Opolno:80
"""
_ABROAD = """
Nowy_Jork=New_York:US:8804190 Londyn=London:GB:8961989 Paryż=Paris:FR:2138551 Berlin:DE:3426354 Rzym=Rome:IT:2318895
Madryt=Madrid:ES:3255944 Lizbona=Lisbon:PT:517802 Praga=Prague:CZ:1165581 Wiedeń=Vienna:AT:1691468 Kijów=Kyiv:UA:2797553
Moskwa=Moscow:RU:10381222 Budapeszt=Budapest:HU:1741041 Bruksela=Brussels:BE:1019022 Ateny=Athens:GR:664046
Helsinki:FI:558457 Kopenhaga=Copenhagen:DK:1153615 Wenecja=Venice:IT:51298 Stambuł=Istanbul:TR:14804116
Barcelona:ES:1620343 Wilno=Vilnius:LT:542366 Lwów=Lviv:UA:717803 Drezno=Dresden:DE:486854 Genewa=Geneva:CH:183981
Haga=The_Hague:NL:474292 Singapur=Singapore:SG:3547809 Nowe_Delhi=New_Delhi:IN:317797 Nicea=Nice:FR:342669
Sofia:BG:1152556 Neapol=Naples:IT:959470 Bazylea=Basel:CH:164488 Split:HR:149830 Szanghaj=Shanghai:CN:22315474
Zurych=Zurich:CH:341730 Sarajewo=Sarajevo:BA:696731 Odessa:UA:1015826 Oslo:NO:580000 Tokio=Tokyo:JP:8336599
Los_Angeles:US:3971883 San_Francisco:US:864816 Monachium=Munich:DE:1260391 Rio_de_Janeiro:BR:6023699 Miami:US:441003
Chicago:US:2720546 Paris:US:24839 Mie:JP:40000 Pila:PH:46534 Kolo:CD:80000 Springfield:US:114394 Springfield:US:169176
Sydney:AU:4627345 Toronto:CA:2600000 Seattle:US:684451 Turku:FI:175945 Wellington:NZ:381900 Dublin:IE:1024027
"""
_COUNTRIES = {"PL": "Polska", "US": "Stany Zjednoczone", "FR": "Francja", "GB": "Wielka Brytania", "DE": "Niemcy"}
_REGIONS = {114394: "Illinois", 169176: "Missouri", 24839: "Texas"}


def _read() -> list[KnownPlace]:
    lines = [
        f"{names}:PL:{population}" for names, _, population in (e.partition(":") for e in (_POLISH + _DECOYS).split())
    ]
    found = []
    for number, entry in enumerate([*lines, *_ABROAD.split()], start=1000):
        names, country, population = entry.rsplit(":", 2)
        polish, _, english = names.replace("_", " ").partition("=")
        found.append(
            KnownPlace(
                number,
                polish,
                english or polish,
                country,
                _COUNTRIES.get(country, country),
                int(population),
                _REGIONS.get(int(population), ""),
            )
        )
    return found


PLACES = _read()


@cache
def folded(text: str) -> str:
    """Return text as geocoders compare it: without case and diacritics."""
    spread = unicodedata.normalize("NFKD", text.casefold().replace("ł", "l"))
    return "".join(each for each in spread if not unicodedata.combining(each))
