/** Teksty kroków asystenta i jego narzędzi. */
import type { steps as english } from "../en/steps";

const plural = new Intl.PluralRules("pl");
const OLDEST = new Map<string, string>([
  ["one", "najstarszej wiadomości"],
]);
const oldest = (count: string, value: number): string => `${count} ${OLDEST.get(plural.select(value)) ?? "najstarszych wiadomości"}`;

export const steps: typeof english = {
  toolsLabel: "Narzędzia asystenta",
  toolsHint: "Odpowiada bez narzędzi, które są wyłączone.",
  consentsLabel: "Dozwolone w tej rozmowie",
  consentsHint: "Te narzędzia działają bez pytania, dopóki ich nie wyłączysz albo ich opis się nie zmieni.",
  wouldSend: (tool: string, server: string) => `${tool} na serwerze ${server} dostanie:`,
  sendsNothing: "nic poza samym wywołaniem.",
  allowOnce: "Zezwól raz",
  allowAlways: "Zezwól w tej rozmowie",
  toolNames: {
    weather: "Pogoda",
    wikipedia: "Wikipedia",
    math: "Matematyka",
    image: "Obrazy",
    web_page: "Strony internetowe",
  },
  toolSuggestions: {
    weather: "Jaka będzie jutro pogoda w Gdańsku?",
    wikipedia: "Kim był Mikołaj Kopernik?",
    math: "Scałkuj x^2*sin(x) i narysuj wykres wyniku",
    image: "Narysuj latarnię morską nocą",
    web_page: "Co jest na stronie https://www.example.org/?",
  },
  toolRunning: {
    weather: "Sprawdzam pogodę…",
    wikipedia: "Szukam w Wikipedii…",
    math: "Liczę…",
    image: "Rysuję…",
    web_page: "Czytam stronę…",
  },
  otherToolRunning: (tool) => `Używam: ${tool}…`,
  lookedUp: (what) => `Sprawdzono: ${what}`,
  used: (what) => `Użyto: ${what}`,
  understoodAs: (question) => `Zrozumiano jako: ${question}`,
  leftOut: (count, value) => `Ta rozmowa jest długa: model nie przeczytał ${oldest(count, value)}.`,
  summarised: (count, value) => `Ta rozmowa jest długa: model przeczytał streszczenie ${oldest(count, value)}.`,
  showSummary: "Pokaż streszczenie",
  stepStopped: "Zatrzymano przed końcem.",
  stepFailed: "Nie udało się.",
  resultLeftOut: "Gotowe. Wyniku nie pokazano: jest za duży albo nieznanego rodzaju.",
  answerInCards: "Wynik jest pokazany powyżej.",
  source: "Źródło",
  feelsLike: (value) => `odczuwalna ${value}`,
  humidity: (value) => `wilgotność ${value}`,
  wind: (value) => `wiatr ${value}`,
  temperatureOf: "Temperatura",
  precipitationOf: "Opady",
  nextHours: "Godzina po godzinie",
  nextDays: "Dzień po dniu",
  weatherDay: "Dzień",
  lowest: "Najniższa",
  highest: "Najwyższa",
  hoursChart: (from, to, lowest, highest) =>
    `Temperatura i opady od ${from} do ${to}: między ${lowest} a ${highest}. Strzałki przechodzą po godzinach.`,
  plotChart: (what, from, to, lowest, highest) =>
    `Wykres ${what} od ${from} do ${to}: wartości między ${lowest} a ${highest}. Strzałki przechodzą po krzywej.`,
  noValue: "brak wartości",
  showValues: "Pokaż wartości w tabeli",
  about: (value) => `≈ ${value}`,
  enlargeImage: "Powiększ obraz",
  downloadImage: "Pobierz",
  imageAlt: (prompt) => `Obraz: ${prompt}`,
  imageGone: "Obraz nie jest już dostępny.",
  drawnFrom: (prompt) => `Narysowano z opisu: ${prompt}`,
  readAt: (time) => `odczytano ${time}`,
  answeredBy: (tool, server) => `${tool} (${server})`,
};
