/** Teksty strony administracji o dostępie do modeli. */
import type { modelAccess as english } from "../en/model_access";

export const modelAccess: typeof english = {
  modelAccessHint:
    "Zapytanie może używać modeli, które dopuszczają jego klucz, projekt, rola osoby i sama osoba. " +
    "Właścicieli nie można ograniczyć, a administratorów ograniczają tylko oni. Zmiana działa w ciągu pięciu sekund.",
  modelAccessOf: "Dotyczy",
  modelAccessKinds: { project: "Projekt", role: "Rola", user: "Osoba" },
  mayUse: "Dozwolone",
  mayUseAll: "Wszystkie modele",
  mayUseNone: "Żaden model",
  mayUseOnly: (models) => `Tylko ${models}`,
  mayUseAllBut: (models) => `Wszystkie oprócz ${models}`,
  modelRule: "Modele",
  modelRules: { all: "Wszystkie modele", allow_list: "Tylko te", deny_list: "Wszystkie oprócz tych" },
  servedModels: "Dostępne modele",
  unlistedModels: "Inne modele",
  unlistedModelsHint: "Pełne nazwy lub aliasy, oddzielone przecinkami.",
};
