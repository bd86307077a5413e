/** The page's routes and their URLs, for which `chat_ui/http/page.py` serves `index.html`. */

export const ADMIN_SECTIONS = [
  "people",
  "projects",
  "keys",
  "access",
  "moderation",
  "budgets",
  "limits",
  "prices",
  "models",
  "installation",
  "usage",
  "audit",
] as const;
export type AdminSection = (typeof ADMIN_SECTIONS)[number];

/** The list of collections, a collection, or a passage of one of its files. */
export interface DocumentsRoute {
  readonly name: "documents";
  readonly collection: string | null;
  readonly file: string | null;
  readonly passage: number | null;
}

export type Route =
  | { readonly name: "chat"; readonly conversation: string | null }
  | { readonly name: "shared"; readonly token: string }
  | { readonly name: "sign-in" }
  | { readonly name: "sign-up" }
  | { readonly name: "forgot-password" }
  | { readonly name: "invitation"; readonly token: string }
  | { readonly name: "start"; readonly token: string }
  | { readonly name: "reset"; readonly token: string }
  | { readonly name: "account" }
  | { readonly name: "usage" }
  | { readonly name: "batches" }
  | DocumentsRoute
  | { readonly name: "admin"; readonly section: AdminSection }
  | { readonly name: "unknown" };

const UNKNOWN: Route = { name: "unknown" };
export const DOCUMENTS: DocumentsRoute = { name: "documents", collection: null, file: null, passage: null };

/** Returns the route of a URL. Tokens of links are in the fragment, which browsers do not send to the server. */
export function parse(path: string, fragment: string): Route {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const name of ["invitation", "start", "reset"] as const) {
    const token = given.get(name);
    if (token !== null) return { name, token };
  }
  const [name = "", ...rest] = path.split("/").filter((part) => part !== "").map(decoded);
  if (name === "documents") return ofDocuments(rest) ?? UNKNOWN;
  const [second, ...more] = rest;
  if (more.length > 0) return UNKNOWN;
  return (second === undefined ? ofOne(name) : ofTwo(name, second)) ?? UNKNOWN;
}

/** Returns the URL of a route. */
export function href(route: Route): string {
  switch (route.name) {
    case "chat":
      return route.conversation === null ? "/" : `/c/${encodeURIComponent(route.conversation)}`;
    case "shared":
      return `/shared/${encodeURIComponent(route.token)}`;
    case "invitation":
    case "start":
    case "reset":
      return `/#${route.name}=${encodeURIComponent(route.token)}`;
    case "admin":
      return `/admin/${route.section}`;
    case "documents":
      return ["/documents", route.collection, route.file, route.passage]
        .filter((part) => part !== null)
        .map((part, place) => (place === 0 ? part : encodeURIComponent(part)))
        .join("/");
    case "unknown":
      return "/";
    default:
      return `/${route.name}`;
  }
}

function ofOne(name: string): Route | undefined {
  switch (name) {
    case "":
      return { name: "chat", conversation: null };
    case "admin":
      return { name: "admin", section: "people" };
    case "sign-in":
    case "sign-up":
    case "forgot-password":
    case "account":
    case "usage":
    case "batches":
      return { name };
  }
  return undefined;
}

function ofTwo(name: string, rest: string): Route | undefined {
  if (name === "c") return { name: "chat", conversation: rest };
  if (name === "shared") return { name: "shared", token: rest };
  const section = name === "admin" ? ADMIN_SECTIONS.find((known) => known === rest) : undefined;
  return section === undefined ? undefined : { name: "admin", section };
}

function ofDocuments([collection, file, passage, ...more]: readonly string[]): Route | undefined {
  if (more.length > 0 || (passage !== undefined && !/^\d{1,9}$/.test(passage))) return undefined;
  return { ...DOCUMENTS, collection: collection ?? null, file: file ?? null, passage: passage === undefined ? null : Number(passage) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
}
