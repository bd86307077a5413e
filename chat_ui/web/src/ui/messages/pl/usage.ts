/** Teksty strony zużycia. */
import type { usage as english } from "../en/usage";

const plural = new Intl.PluralRules("pl");
const DAYS = new Map<string, string>([
  ["one", "Ostatni dzień"],
  ["few", "Ostatnie {} dni"],
]);

export const usage: typeof english = {
  usageTitle: "Zużycie",
  balance: "Saldo",
  available: "Dostępne środki",
  usedThisMonth: "Zużyto w tym miesiącu",
  setAside: "Zarezerwowane na trwające zapytania",
  budgetOfOrganisation: "Budżet organizacji na ten miesiąc",
  budgetOfProject: "Budżet projektu na ten miesiąc",
  budgetOfKey: (key) => `Budżet klucza ${key} na ten miesiąc`,
  usedOf: (used, limit) => `${used} z ${limit}`,
  ownUsage: "Twoje zużycie",
  period: "Okres",
  lastDays: (count) => (DAYS.get(plural.select(count)) ?? "Ostatnich {} dni").replace("{}", String(count)),
  measure: "Miara",
  measures: { cost: "Koszt", tokens: "Tokeny", requests: "Zapytania" },
  chartLabel: (measure, days) => `${measure} według dni i modeli, dni: ${days}; liczby są w tabeli poniżej`,
  otherModels: "Inne modele",
  nothingUsed: "W tym okresie niczego nie zużyto",
  nothingUsedHint: "Odpowiedzi z czatu i wywołania z Twoimi kluczami API pojawiają się tu w ciągu kilku sekund.",
  asTable: "Jako tabela",
  usageTable: "Zużycie według dni i modeli",
  day: "Dzień",
  requests: "Zapytania",
  inputTokens: "Tokeny wejściowe",
  cachedTokens: "w tym z pamięci podręcznej",
  outputTokens: "Tokeny wyjściowe",
  cost: "Koszt",
  storage: "Miejsce",
  storedConversations: "Twoje rozmowy z plikami",
  limits: "Limity",
  limitOf: "Dla kogo",
  limitOfProject: "Projekt",
  limitOfOrganisation: "Organizacja",
  requestsPerMinute: "Zapytania na minutę",
  tokensPerMinute: "Tokeny na minutę",
  requestsPerDay: "Zapytania na dzień",
  concurrentRequests: "Zapytania jednocześnie",
  noLimit: "brak",
  noLimits: "Nie ma limitów.",
};
