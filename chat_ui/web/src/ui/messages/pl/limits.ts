/** Teksty edytora limitów. */
import type { limits as english } from "../en/limits";

export const limits: typeof english = {
  limitsHint: "O ile mogą prosić wszystkie osoby i klucze API razem. Limity jednej osoby lub klucza ustawia się na listach osób i kluczy.",
  limitsOf: (name) => `Limity: ${name}`,
  limitsOfOrganisation: "Cała organizacja",
  limitsOfModel: (name) => `Model ${name}, we wszystkich projektach`,
  limitsOfProject: (name) => `Projekt ${name}`,
  limitsFieldsHint: "Puste pole: bez własnego limitu.",
  limitsCeiling: (most) => `Najwyżej ${most}, jak ustalił operator.`,
  limitsOverCeiling: "To więcej, niż pozwala operator.",
  limitsNotANumber: "Limit to liczba całkowita od 1 do 999999999.",
  limitsSaved: "Limity zaczną działać w ciągu kilku sekund.",
};
