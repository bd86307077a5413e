/** Teksty strony zadań wsadowych. */
import type { batches as english } from "../en/batches";

const plural = new Intl.PluralRules("pl");
const ERRORS = new Map<string, string>([
  ["one", "błąd"],
  ["few", "błędy"],
]);

export const batches: typeof english = {
  batchesTitle: "Zadania wsadowe",
  batchesHint: "Plik z zapytaniami, po jednym wierszu JSON na zapytanie, jest opracowywany w tle w ciągu 24 godzin i ustępuje pierwszeństwa ludziom. Format jest taki jak w Batch API OpenAI.",
  batchFile: "Plik wejściowy",
  batchStart: "Rozpocznij zadanie z pliku",
  batchTooLarge: "Plik jest za duży: najwyżej 200 MiB.",
  batchNotKnown: "Pierwszy wiersz pliku nie podaje w polu „url” punktu końcowego zadań wsadowych.",
  noBatches: "Nie ma zadań wsadowych",
  noBatchesHint: "Tu pojawiają się zadania projektu, także utworzone przez jego klucze API.",
  batchStates: {
    validating: "Sprawdzanie pliku",
    failed: "Plik jest nieprawidłowy",
    in_progress: "W toku",
    finalizing: "Kończenie",
    completed: "Zakończone",
    expired: "Wygasło po 24 godzinach",
    cancelling: "Anulowanie",
    cancelled: "Anulowane",
  },
  batchProgress: "Gotowe wiersze",
  batchDone: (done, total) => `${done} z ${total} wierszy`,
  batchFailed: (text, count) => `${text} ${ERRORS.get(plural.select(count)) ?? "błędów"}`,
  batchLeft: (duration) => `pozostało około ${duration}`,
  batchProblem: (line, message) => `Wiersz ${line}: ${message}`,
  batchOutput: "Pobierz odpowiedzi",
  batchErrors: "Pobierz błędy",
  batchCancel: "Anuluj zadanie",
  batchKeep: "Nie anuluj",
  batchCancelTitle: (name) => `Anulować ${name}?`,
  batchCancelText: "Wiersze, które są teraz w toku, zostaną dokończone i policzone. Dotychczasowe odpowiedzi można pobrać; pozostałe wiersze nie zostaną opracowane.",
};
