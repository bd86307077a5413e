"""The weather tool of the assistant: current weather and forecast of a place, by the configured weather service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from assistant.tools.delimited import clean, delimited
from assistant.tools.forecast_days import AskedDays, asked_days, named_date
from assistant.tools.geocoding import PlaceFinder
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, ToolContext
from assistant.tools.weather_codes import description
from assistant.tools.weather_questions import asks_about_weather, weather_arguments
from assistant.tools.weather_report import Report, WeatherService

DEFAULT_DAYS = 5
PHRASED_DAYS = 3
MAX_TEXT = 100
_NO_PLACE = Sentence("Which place is meant? The question names none.", "O które miejsce chodzi? Pytanie go nie podaje.")
_BEYOND = Sentence(
    "The forecast ends on {end}, so it does not reach {asked} yet.",
    "Prognoza kończy się {end} i nie obejmuje jeszcze tego terminu: {asked}.",
)
_PARTLY = Sentence("The forecast ends on {end}.", "Prognoza kończy się {end}.")
_PAST = Sentence(
    "Only the weather now and forecasts are known, not the past: {asked}.",
    "Znana jest tylko pogoda teraz i prognoza, a nie przeszłość: {asked}.",
)


class Weather:
    """The weather tool, which asks one weather service."""

    name = "weather"
    description = (
        "Current weather and forecast of a place. Call it for questions about weather, temperature, rain, snow or wind "
        "now or in the next days. Pass the place as the person wrote it, in any grammatical form."
    )
    time_limit = 15.0
    cache_seconds = 600.0

    def __init__(self, service: WeatherService) -> None:
        self._service = service
        self._places = PlaceFinder(service)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the weather tool's arguments: the place and, optionally, the day or number of days."""
        return {
            "type": "object",
            "properties": {
                "place": {
                    "type": "string",
                    "maxLength": 100,
                    "description": "City, town or region; a country may follow behind a comma",
                },
                "day": {
                    "type": "string",
                    "maxLength": 30,
                    "description": "The day that is asked about, in English: today, tomorrow, friday, next friday, "
                    "weekend, next week, in 3 days, or a date as 2026-06-14",
                },
                "days": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": self._service.max_days,
                    "description": "Days of forecast, today included",
                },
            },
            "required": ["place"],
            "additionalProperties": False,
        }

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return place and days for an English or Polish question, as arguments; `None` if it is not about weather.

        The place is empty if a question about the weather names none: the call then asks for it.
        """
        arguments = weather_arguments(question)
        if arguments is None:
            return {"place": ""} if asks_about_weather(question) else None
        if "days" in arguments:
            arguments["days"] = min(arguments["days"], self._service.max_days)
        return arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the weather of the place and days of `arguments`, as a JSON object of the type `weather`.

        Raises:
            ToolError: there is no such place or day, or the service does not answer.
        """
        name, days, day = arguments.get("place"), arguments.get("days", DEFAULT_DAYS), arguments.get("day", "")
        if not isinstance(name, str) or not name.strip() or not isinstance(days, int):
            raise InvalidArguments(_NO_PLACE)
        if day:
            asked_days(day, date(2000, 1, 1))  # An unreadable day is refused before a service is asked.
            days = self._service.max_days
        language = context.language.lower().split("-")[0]
        place = await self._places.find(name, language)
        report = await self._service.report(place, max(1, min(days, self._service.max_days)))
        asked = _asked(day, report, language)
        return {
            "type": "weather",
            "place": {
                "name": place.name[:MAX_TEXT],
                "country": place.country[:MAX_TEXT],
                "region": place.region[:MAX_TEXT],
            },
            "now": asdict(report.now) | {"description": description(report.now.code, language)},
            "hours": [asdict(each) for each in report.hours],
            "days": [asdict(each) | {"description": description(each.code, language)} for each in report.days],
            **({"asked": asked} if asked else {}),
            "units": "metric",
            "source": asdict(self._service.source),
        }

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return a weather result as the text of the answer, in the result's language.

        It has the days that were asked about, or else the current weather and up to three days.
        """
        now, place, asked = result["now"], _joined(result["place"]), result.get("asked")
        days = {
            day["date"]: f"{day['description']}, {_celsius(day['min'])} – {_celsius(day['max'])}."
            for day in result["days"]
        }
        current = f"{place}: {now['description']}, {_celsius(now['temperature'])}."
        if asked is None:
            return clean("\n".join([current, *(f"{day}: {days[day]}" for day in list(days)[:PHRASED_DAYS])]))
        first = current if now["at"][:10] in asked["days"] else f"{place}:"
        lines = [f"{name}: {days[day]}" for day, name in asked["days"].items()]
        return clean("\n".join([first, *lines, *([asked["note"]] if "note" in asked else [])]))

    def for_model(self, result: dict[str, Any]) -> str:
        """Return a weather result as a delimited block of data for the answering model."""
        now, place = result["now"], result["place"]
        lines = [
            f"Place: {_joined(place)}",
            f"Now ({now['at']} local time): {now['description']}, {_celsius(now['temperature'])}, feels like "
            f"{_celsius(now['feels_like'])}, humidity {now['humidity']:.0f} %, wind {now['wind']:.0f} km/h",
            *(
                f"{day['date']}: {day['description']}, {_celsius(day['min'])} to {_celsius(day['max'])}, "
                f"precipitation {day['precipitation']:.1f} mm"
                for day in result["days"]
            ),
        ]
        if (asked := result.get("asked")) is not None:
            lines.append(f"The question is about: {asked['text']}. {asked.get('note', '')}")
        return delimited("weather", lines)


def _asked(day: str, report: Report, language: str) -> dict[str, Any] | None:
    """Return what a result says of the day that was asked about; `None`: no day was."""
    if not day:
        return None
    today = date.fromisoformat(report.now.at[:10])
    wanted = asked_days(day, today)
    dates = [each.date for each in report.days if wanted.contains(each.date)]
    asked: dict[str, Any] = {
        "text": wanted.text(language),
        "days": {each: named_date(each, language) for each in dates},
    }
    note = _note(wanted, today, report.days[-1].date if report.days else today.isoformat(), asked["text"], language)
    return asked | ({"note": note} if note else {})


def _note(wanted: AskedDays, today: date, end: str, text: str, language: str) -> str:
    """Return what the forecast lacks of the wanted days; "" if it has them all."""
    if wanted.last < today:
        return _PAST.text(language, asked=text)
    if wanted.last.isoformat() <= end:
        return ""
    sentence = _PARTLY if wanted.first.isoformat() <= end else _BEYOND
    return sentence.text(language, end=end, asked=text)


def _joined(place: Mapping[str, str]) -> str:
    parts = [place["name"], place.get("region", ""), place["country"]]
    return ", ".join(dict.fromkeys(each for each in parts if each))


def _celsius(value: float) -> str:
    """Return a temperature in whole degrees, half of one rounded away from zero as in the chat's card."""
    return f"{int(Decimal(value).to_integral_value(ROUND_HALF_UP))} °C"
