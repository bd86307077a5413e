"""Describes weather conditions by WMO codes, and converts the conditions of OpenWeather to WMO codes.

Sources: "WMO Weather interpretation codes (WW)" of https://open-meteo.com/en/docs, and
https://openweathermap.org/weather-conditions.
"""

from __future__ import annotations

from assistant.tools.sentences import Sentence

DESCRIPTIONS = {
    0: Sentence("clear sky", "bezchmurnie"),
    1: Sentence("mainly clear", "przeważnie bezchmurnie"),
    2: Sentence("partly cloudy", "częściowe zachmurzenie"),
    3: Sentence("overcast", "pochmurno"),
    45: Sentence("fog", "mgła"),
    48: Sentence("rime fog", "mgła osadzająca szadź"),
    51: Sentence("light drizzle", "lekka mżawka"),
    53: Sentence("drizzle", "mżawka"),
    55: Sentence("dense drizzle", "gęsta mżawka"),
    56: Sentence("light freezing drizzle", "lekka marznąca mżawka"),
    57: Sentence("freezing drizzle", "marznąca mżawka"),
    61: Sentence("light rain", "słaby deszcz"),
    63: Sentence("rain", "deszcz"),
    65: Sentence("heavy rain", "silny deszcz"),
    66: Sentence("light freezing rain", "słaby marznący deszcz"),
    67: Sentence("freezing rain", "marznący deszcz"),
    71: Sentence("light snow", "słabe opady śniegu"),
    73: Sentence("snow", "opady śniegu"),
    75: Sentence("heavy snow", "silne opady śniegu"),
    77: Sentence("snow grains", "śnieg ziarnisty"),
    80: Sentence("light showers", "słabe przelotne opady"),
    81: Sentence("showers", "przelotne opady"),
    82: Sentence("violent showers", "gwałtowne ulewy"),
    85: Sentence("light snow showers", "słabe przelotne opady śniegu"),
    86: Sentence("heavy snow showers", "silne przelotne opady śniegu"),
    95: Sentence("thunderstorm", "burza"),
    96: Sentence("thunderstorm with light hail", "burza z lekkim gradem"),
    99: Sentence("thunderstorm with heavy hail", "burza z silnym gradem"),
}
_UNKNOWN = Sentence("unknown", "brak opisu")

_FROM_OPENWEATHER = {
    **dict.fromkeys((200, 201, 210, 211, 221, 230, 231, 232), 95),
    **dict.fromkeys((202, 212), 95),
    **dict.fromkeys((300, 310), 51),
    **dict.fromkeys((301, 311, 313, 321), 53),
    **dict.fromkeys((302, 312, 314), 55),
    500: 61,
    501: 63,
    **dict.fromkeys((502, 503, 504), 65),
    511: 67,
    520: 80,
    **dict.fromkeys((521, 531), 81),
    522: 82,
    600: 71,
    601: 73,
    602: 75,
    **dict.fromkeys((611, 612, 613, 615, 616), 73),
    **dict.fromkeys((620, 621), 85),
    622: 86,
    **dict.fromkeys((701, 711, 721, 731, 741, 751, 761, 762, 771, 781), 45),
    800: 0,
    801: 1,
    802: 2,
    803: 3,
    804: 3,
}
_BY_GROUP = {2: 95, 3: 53, 5: 63, 6: 73, 7: 45, 8: 3}


def description(code: int, language: str) -> str:
    """Return the weather condition of a WMO code in plain words of `language`."""
    return DESCRIPTIONS.get(code, _UNKNOWN).text(language)


def wmo_code(openweather: int) -> int:
    """Return the WMO code of OpenWeather's condition code; an unknown condition has the code of its group."""
    return _FROM_OPENWEATHER.get(openweather, _BY_GROUP.get(openweather // 100, 3))
