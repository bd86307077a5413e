/** Teksty wokół każdej strony: nawigacja, menu, okna i błędy API czatu. */
import type { shell as english } from "../en/shell";

const plural = new Intl.PluralRules("pl");
const CHARACTERS = new Map<string, string>([
  ["one", "znak"],
  ["few", "znaki"],
]);

const problems: typeof english.problems = {
  invalid_credentials: "Adres e-mail lub hasło jest nieprawidłowe.",
  not_signed_in: "Sesja wygasła. Zaloguj się ponownie.",
  too_many_sign_ins: "Zbyt wiele prób logowania. Odczekaj chwilę.",
  import_running: "Trwa już import innego pliku. Poczekaj, aż się skończy.",
  busy: "Usługa jest zajęta. Spróbuj ponownie za chwilę.",
  unavailable: "Usługa jest zajęta. Spróbuj ponownie za chwilę.",
  not_permitted: "Twoja rola na to nie pozwala.",
  not_found: "Tego tu nie ma albo już nie ma.",
  email_taken: "Ktoś już założył konto z tym adresem e-mail.",
  invitation_void: "To zaproszenie jest nieważne albo już wygasło. Poproś o nowe.",
  sign_up_closed: "Do założenia konta potrzebne jest zaproszenie.",
  last_owner: "Organizacja musi mieć właściciela: najpierw wyznacz kogoś innego.",
  cross_site: "Strona jest nieaktualna. Wczytaj ją ponownie.",
  request_too_large: "To jest za duże.",
  full: "Nie ma już miejsca. Usuń coś albo zacznij inną rozmowę.",
  answer_running: "To właśnie powstaje. Najpierw zatrzymaj albo poczekaj na koniec.",
  invalid_json: "Tego nie udało się odczytać.",
  request_timeout: "Połączenie jest zbyt wolne: nie wszystko dotarło na czas.",
  internal_error: "Coś poszło nie tak na serwerze. Spróbuj ponownie.",
  network: "Nie można połączyć się z serwerem. Sprawdź połączenie.",
};

const fields: typeof english.fields = {
  password: "Hasło ma od 10 do 1024 znaków.",
  email: "To nie jest adres e-mail.",
  name: "Nazwa ma od 1 do 100 znaków.",
  organisation: "Podaj nazwę organizacji.",
  title: "Tytuł ma od 1 do 200 znaków.",
  settings: "Najpierw wybierz model.",
  attachments: "Pliki są razem zbyt duże.",
  parent: "Rozmowa zmieniła się w międzyczasie. Wczytaj stronę ponownie.",
  leaf: "Rozmowa zmieniła się w międzyczasie. Wczytaj stronę ponownie.",
};

export const shell: typeof english = {
  brand: "Headrace",
  skipToContent: "Przejdź do treści",
  mainNavigation: "Strony",
  navChat: "Czat",
  navUsage: "Zużycie",
  navAdmin: "Administracja",
  accountMenu: "Konto i wygląd",
  signedInAs: (name) => `Zalogowano jako ${name}`,
  navAccount: "Konto",
  signOut: "Wyloguj się",
  language: "Język",
  languageNames: { en: "English", pl: "Polski" },
  languageOfBrowser: "Jak w przeglądarce",
  theme: "Wygląd",
  themeNames: { system: "Jak w systemie", light: "Jasny", dark: "Ciemny" },
  loading: "Wczytywanie…",
  close: "Zamknij",
  cancel: "Anuluj",
  save: "Zapisz",
  dismiss: "Zamknij",
  notifications: "Powiadomienia",
  unknownPageTitle: "Niczego tu nie ma",
  unknownPage: "Adres może zawierać błąd albo to, co tu było, zostało usunięte.",
  toTheChat: "Przejdź do czatu",
  unreachableTitle: "Nie można połączyć się z serwerem",
  notForYourRole: "Ta strona jest dla administratorów organizacji.",
  problems,
  fields,
  serverSaid: (detail) => `Serwer odpowiedział: ${detail}`,
  fieldMissing: "Wypełnij to pole.",
  fieldTooShort: (least, value) => `Wpisz co najmniej ${least} ${CHARACTERS.get(plural.select(value)) ?? "znaków"}.`,
};
