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
  | { readonly name: "admin"; readonly section: AdminSection }
  | { readonly name: "unknown" };

const UNKNOWN: Route = { name: "unknown" };

/** Returns the route of a URL. Tokens of links are in the fragment, which browsers do not send to the server. */
export function parse(path: string, fragment: string): Route {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const name of ["invitation", "start", "reset"] as const) {
    const token = given.get(name);
    if (token !== null) return { name, token };
  }
  const [first = "", second, ...more] = path.split("/").filter((part) => part !== "").map(decoded);
  if (more.length > 0) return UNKNOWN;
  return (second === undefined ? ofOne(first) : ofTwo(first, second)) ?? UNKNOWN;
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

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
}
