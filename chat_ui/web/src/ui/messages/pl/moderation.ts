/** Teksty strony administracji o sprawdzaniu pytań i odpowiedzi. */
import type { moderation as english } from "../en/moderation";

export const moderation: typeof english = {
  moderationHint:
    "Klasyfikator albo reguły operatora sprawdzają pytania i odpowiedzi w projekcie. To, co należy do blokowanej kategorii, jest odrzucane albo przerywane. " +
    "Zmiana działa w ciągu pięciu sekund. Klasyfikator kosztuje według swojej ceny; czaty należą do najstarszego używanego projektu.",
  checkedBy: "Sprawdza",
  notChecked: "Nic nie jest sprawdzane",
  checkedTexts: "Co jest sprawdzane",
  checkedPrompts: "Pytania",
  checkedAnswers: "Odpowiedzi",
  blocking: "Blokuje",
  blockingRules: { all: "Każda kategoria", some: "Tylko te kategorie" },
  categories: "Kategorie",
  noCategory: "Wybierz kategorię.",
  nothingToCheck: "Wybierz pytania, odpowiedzi albo jedno i drugie.",
};
