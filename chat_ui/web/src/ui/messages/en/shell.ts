/** Texts of navigation, menus and dialogs, and of API errors. */

const plural = new Intl.PluralRules("en");

/** Texts of errors by code; for other codes the server's message is shown. */
const problems: Readonly<Record<string, string>> = {
  invalid_credentials: "The e-mail address or the password is wrong.",
  not_signed_in: "You are signed out. Please sign in again.",
  too_many_sign_ins: "Too many tries to sign in. Please wait a moment.",
  import_running: "Another file is being imported. Please wait for its end.",
  busy: "The service is busy. Please try again in a moment.",
  unavailable: "The service is busy. Please try again in a moment.",
  not_permitted: "Your role does not allow this.",
  not_found: "This is not there, or not any more.",
  email_taken: "Somebody has signed up with this e-mail address already.",
  invitation_void: "This invitation is not valid, or not any more. Ask for another one.",
  sign_up_closed: "To sign up you need an invitation.",
  last_owner: "An organisation needs an owner: make somebody else one first.",
  cross_site: "The page is out of date. Please load it again.",
  request_too_large: "That is too large.",
  full: "There is no room for more. Delete something, or begin another conversation.",
  answer_running: "This is being written. Stop it first, or wait for its end.",
  invalid_json: "This could not be read.",
  request_timeout: "The connection is too slow: not all of it came in time.",
  internal_error: "Something went wrong on the server. Please try again.",
  network: "The server cannot be reached. Check the connection.",
};

/** Texts of invalid request fields by name; for other fields the server's message is shown. */
const fields: Readonly<Record<string, string>> = {
  password: "A password has 10 to 1,024 characters.",
  email: "This is not an e-mail address.",
  name: "A name has 1 to 100 characters.",
  organisation: "Give your organisation a name.",
  title: "A title has 1 to 200 characters.",
  settings: "Choose a model first.",
  attachments: "The files are too large together.",
  parent: "The conversation has changed meanwhile. Please load the page again.",
  leaf: "The conversation has changed meanwhile. Please load the page again.",
};

export const shell = {
  brand: "Headrace",
  skipToContent: "Skip to the content",
  mainNavigation: "Pages",
  navChat: "Chat",
  navUsage: "Usage",
  navAdmin: "Administration",
  accountMenu: "Account and appearance",
  signedInAs: (name: string) => `Signed in as ${name}`,
  navAccount: "Account",
  signOut: "Sign out",
  language: "Language",
  languageNames: { en: "English", pl: "Polski" } as Readonly<Record<string, string>>,
  languageOfBrowser: "As the browser",
  theme: "Appearance",
  themeNames: { system: "As the system", light: "Light", dark: "Dark" },
  loading: "Loading…",
  close: "Close",
  cancel: "Cancel",
  save: "Save",
  dismiss: "Dismiss",
  notifications: "Notifications",
  unknownPageTitle: "There is nothing here",
  unknownPage: "The address may be misspelt, or what was here is gone.",
  toTheChat: "To the chat",
  unreachableTitle: "The server cannot be reached",
  notForYourRole: "This page is for administrators of the organisation.",
  problems,
  fields,
  serverSaid: (detail: string) => `The server said: ${detail}`,
  fieldMissing: "Please fill this in.",
  fieldTooShort: (least: string, value: number) => `At least ${least} ${plural.select(value) === "one" ? "character" : "characters"}, please.`,
};
