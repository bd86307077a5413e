"""Inflected place names as Polish questions have them, and the nominatives that they mean."""

from __future__ import annotations

_TEXT = """
Lądku:Lądek Wrocławiu:Wrocław Gdyni:Gdynia Nowym_Jorku:Nowy_Jork Krakowie:Kraków Warszawie:Warszawa Łodzi:Łódź
Poznaniu:Poznań Gdańsku:Gdańsk Szczecinie:Szczecin Bydgoszczy:Bydgoszcz Lublinie:Lublin Białymstoku:Białystok
Katowicach:Katowice Częstochowie:Częstochowa Radomiu:Radom Sosnowcu:Sosnowiec Toruniu:Toruń Kielcach:Kielce
Rzeszowie:Rzeszów Gliwicach:Gliwice Zabrzu:Zabrze Olsztynie:Olsztyn Bielsku-Białej:Bielsko-Biała
Zielonej_Górze:Zielona_Góra Rybniku:Rybnik Opolu:Opole Tychach:Tychy Gorzowie_Wielkopolskim:Gorzów_Wielkopolski
Elblągu:Elbląg Dąbrowie_Górniczej:Dąbrowa_Górnicza Płocku:Płock Wałbrzychu:Wałbrzych Włocławku:Włocławek
Tarnowie:Tarnów Chorzowie:Chorzów Koszalinie:Koszalin Kaliszu:Kalisz Legnicy:Legnica Grudziądzu:Grudziądz
Jaworznie:Jaworzno Słupsku:Słupsk Jastrzębiu-Zdroju:Jastrzębie-Zdrój Nowym_Sączu:Nowy_Sącz Jeleniej_Górze:Jelenia_Góra
Siedlcach:Siedlce Mysłowicach:Mysłowice Pile:Piła Ostrowie_Wielkopolskim:Ostrów_Wielkopolski Lubinie:Lubin
Suwałkach:Suwałki Inowrocławiu:Inowrocław Stargardzie:Stargard Gnieźnie:Gniezno
Ostrowcu_Świętokrzyskim:Ostrowiec_Świętokrzyski Siemianowicach_Śląskich:Siemianowice_Śląskie Głogowie:Głogów
Zakopanem:Zakopane Sopocie:Sopot Kołobrzegu:Kołobrzeg Świnoujściu:Świnoujście Zamościu:Zamość Przemyślu:Przemyśl
Chełmie:Chełm Ełku:Ełk Łomży:Łomża Stalowej_Woli:Stalowa_Wola Nowej_Soli:Nowa_Sól Kędzierzynie-Koźlu:Kędzierzyn-Koźle
Rudzie_Śląskiej:Ruda_Śląska Tarnowskich_Górach:Tarnowskie_Góry Piekarach_Śląskich:Piekary_Śląskie
Wodzisławiu_Śląskim:Wodzisław_Śląski Nowym_Targu:Nowy_Targ Nowym_Dworze_Mazowieckim:Nowy_Dwór_Mazowiecki
Nowym_Mieście_Lubawskim:Nowe_Miasto_Lubawskie Wysokiem_Mazowieckiem:Wysokie_Mazowieckie
Skarżysku-Kamiennej:Skarżysko-Kamienna Międzyzdrojach:Międzyzdroje Władysławowie:Władysławowo Helu:Hel Ustce:Ustka
Łebie:Łeba Wieliczce:Wieliczka Krynicy-Zdroju:Krynica-Zdrój Kudowie-Zdroju:Kudowa-Zdrój Lądku-Zdroju:Lądek-Zdrój
Rabce-Zdroju:Rabka-Zdrój Bochni:Bochnia Wiśle:Wisła Jaśle:Jasło Krośnie:Krosno Kutnie:Kutno Mielcu:Mielec Żywcu:Żywiec
Oświęcimiu:Oświęcim Nysie:Nysa Żarach:Żary Ostródzie:Ostróda Iławie:Iława Starogardzie_Gdańskim:Starogard_Gdański
Tczewie:Tczew Malborku:Malbork Kazimierzu_Dolnym:Kazimierz_Dolny Limanowej:Limanowa
Bystrzycy_Kłodzkiej:Bystrzyca_Kłodzka Krasnymstawie:Krasnystaw Brzegu:Brzeg Turku:Turek Krakowa:Kraków Gdańska:Gdańsk
Torunia:Toruń Sosnowca:Sosnowiec Katowic:Katowice Białegostoku:Białystok Zielonej_Góry:Zielona_Góra Krakowem:Kraków
Warszawą:Warszawa Kielcami:Kielce Londynie:Londyn Paryżu:Paryż Berlinie:Berlin Rzymie:Rzym Madrycie:Madryt
Lizbonie:Lizbona Pradze:Praga Wiedniu:Wiedeń Kijowie:Kijów Moskwie:Moskwa Budapeszcie:Budapeszt Brukseli:Bruksela
Atenach:Ateny Helsinkach:Helsinki Kopenhadze:Kopenhaga Wenecji:Wenecja Stambule:Stambuł Barcelonie:Barcelona
Wilnie:Wilno Lwowie:Lwów Dreźnie:Drezno Genewie:Genewa Hadze:Haga Singapurze:Singapur Nowym_Delhi:Nowe_Delhi
Nicei:Nicea Sofii:Sofia Neapolu:Neapol Bazylei:Bazylea Splicie:Split Szanghaju:Szanghaj Zurychu:Zurych
Sarajewie:Sarajewo Odessie:Odessa
"""
INFLECTED = [tuple(each.replace("_", " ").split(":")) for each in _TEXT.split()]
"""Pairs: the form in a question, the place's name."""
_MORE = """
Warszawie:Warszawa Wrocławiu:Wrocław lądku-zdroju:lądek-Zdrój Nowym_Jorku:Nowy_Jork Gdańska:Gdańsk
Jeleniej_Górze:Jelenia_Góra Rzymu:Rzym ŁODZI:ŁÓDŹ Szczecinie:Szczecin Lublinie:Lublin Zamościu:Zamość Sopocie:Sopot
Katowicach:Katowice bielsku-białej:bielsko-biała Morskim_Okiem:Morskie_Oko Atenach:Ateny Edynburga:Edynburg
Pradze:Praga Barcelonie:Barcelona Ostrowa_Wielkopolskiego:Ostrów_Wielkopolski gdyni:gdynia
Kazimierzu_Dolnym:Kazimierz_Dolny Helu:Hel Toruniu:Toruń londynie:londyn Sandomierzu:Sandomierz
Frankfurtu_nad_Menem:Frankfurt_nad_Menem Suwałkach:Suwałki Szczyrku:Szczyrk Opolu:Opole Olsztynie:Olsztyn
Splicie:Split Śnieżce:Śnieżka Białymstoku:Białystok nowym_sączu:nowy_sącz Gliwicach:Gliwice Nowego_Targu:Nowy_Targ
Singapurze:Singapur Wiednia:Wiedeń Włocławku:Włocławek kędzierzynie-koźlu:kędzierzyn-koźle Augustowie:Augustów
Zielonej_Górze:Zielona_Góra Paryżu:Paryż Gorzowie_Wielkopolskim:Gorzów_Wielkopolski Krynicy-Zdroju:Krynica-Zdrój
Lwowie:Lwów Tychach:Tychy Kasprowym_Wierchu:Kasprowy_Wierch Karpaczu:Karpacz Dubaju:Dubaj elbląga:elbląg
Berlina:Berlin Kopenhadze:Kopenhaga Ostrowcu_Świętokrzyskim:Ostrowiec_Świętokrzyski
Piotrkowie_Trybunalskim:Piotrków_Trybunalski Stalowej_Woli:Stalowa_Wola Tomaszowie_Mazowieckim:Tomaszów_Mazowiecki
Bukareszcie:Bukareszt Lizbonie:Lizbona Krakowa:Kraków Poznania:Poznań Zakopanego:Zakopane Gdyni:Gdynia
Sosnowcu:Sosnowiec Radomiu:Radom Kielcach:Kielce Rzeszowa:Rzeszów Łomży:Łomża Przemyślu:Przemyśl
Grudziądzu:Grudziądz Słupsku:Słupsk Mediolanie:Mediolan Florencji:Florencja Madrycie:Madryt Sztokholmie:Sztokholm
Reykjaviku:Reykjavik Bratysławie:Bratysława Dublinie:Dublin Amsterdamie:Amsterdam Kolonii:Kolonia Hamburgu:Hamburg
Lipsku:Lipsk Marsylii:Marsylia Sewilli:Sewilla Nowego_Orleanu:Nowy_Orlean Bielska_Podlaskiego:Bielsk_Podlaski
Wałbrzychu:Wałbrzych Ustce:Ustka Łebie:Łeba Międzyzdrojach:Międzyzdroje Świnoujściu:Świnoujście Kołobrzegu:Kołobrzeg
Ciechocinku:Ciechocinek Wiśle:Wisła Ustroniu:Ustroń Żywcu:Żywiec Cieszynie:Cieszyn Oświęcimiu:Oświęcim
Wieliczce:Wieliczka
"""
MORE_INFLECTED = [tuple(each.replace("_", " ").split(":")) for each in _MORE.split()]
"""Pairs whose names the stubs of geocoders need not have: forms of the labelled questions, and other towns."""
