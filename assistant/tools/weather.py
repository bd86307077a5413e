"""The weather tool: current weather and forecast of a place, from Open-Meteo or OpenWeather."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from assistant.tools.delimited import clean, delimited
from assistant.tools.geocoding import PlaceFinder
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, ToolContext
from assistant.tools.weather_codes import description
from assistant.tools.weather_questions import weather_arguments
from assistant.tools.weather_report import WeatherService

DEFAULT_DAYS = 5
PHRASED_DAYS = 3
MAX_TEXT = 100
_NO_PLACE = Sentence("Which place is meant? The question names none.", "O które miejsce chodzi? Pytanie go nie podaje.")


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
        """JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {
                "place": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 100,
                    "description": "City, town or region; a country may follow behind a comma",
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
        """Return the place and the days that an English or Polish question states; `None`: it names no place."""
        arguments = weather_arguments(question)
        if arguments and "days" in arguments:
            arguments["days"] = min(arguments["days"], self._service.max_days)
        return arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the weather of the place of `arguments` as a result of type `weather`.

        Raises:
            ToolError: there is no such place, or the service does not answer.
        """
        name, days = arguments.get("place"), arguments.get("days", DEFAULT_DAYS)
        if not isinstance(name, str) or not isinstance(days, int):
            raise InvalidArguments(_NO_PLACE)
        language = context.language.lower().split("-")[0]
        place = await self._places.find(name, language)
        report = await self._service.report(place, max(1, min(days, self._service.max_days)))
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
            "units": "metric",
            "source": asdict(self._service.source),
        }

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return the weather now and the forecast of up to three days, in the language of the result."""
        now, place = result["now"], result["place"]
        current = f"{_joined(place)}: {now['description']}, {_celsius(now['temperature'])}."
        days = [
            f"{day['date']}: {day['description']}, {_celsius(day['min'])} – {_celsius(day['max'])}."
            for day in result["days"][:PHRASED_DAYS]
        ]
        return clean("\n".join([current, *days]))

    def for_model(self, result: dict[str, Any]) -> str:
        """Return a result as delimited data for the answering model."""
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
        return delimited("weather", lines)


def _joined(place: Mapping[str, str]) -> str:
    parts = [place["name"], place.get("region", ""), place["country"]]
    return ", ".join(dict.fromkeys(each for each in parts if each))


def _celsius(value: float) -> str:
    return f"{round(value)} °C"
