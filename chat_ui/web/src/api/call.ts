/** The operations of the chat's API by their names, with the types of what they take and answer. */
import { API, json, type Request } from "./http";
import type { InvitationDetails, Me, SignIn, SignUp } from "./shapes";

interface Operations {
  "GET /me": { answer: Me };
  "GET /sign-up": { answer: { readonly open: boolean } };
  "POST /sign-up": { body: SignUp; answer: Me };
  "GET /invitations/{token}": { answer: InvitationDetails };
  "POST /session": { body: SignIn; answer: Me };
  "DELETE /session": { answer: undefined };
  "DELETE /sessions": { answer: undefined };
  "POST /password": { body: { old_password: string; password: string }; answer: Me };
}

type Name = keyof Operations;
type Given<N extends Name> = (Operations[N] extends { body: infer Body } ? { body: Body } : { body?: never }) &
  Omit<Request, "body"> & { path?: Readonly<Record<string, string>> };

/** One operation: `call("GET /people")`. Path parameters go in for `{name}`. Throws `ApiError`. */
export async function call<N extends Name>(
  ...[name, given]: Operations[N] extends { body: unknown } ? [N, Given<N>] : [N, Given<N>?]
): Promise<Operations[N]["answer"]> {
  const [method = "GET", template = ""] = name.split(" ");
  return (await json(method, filled(template, given?.path ?? {}), given)) as Operations[N]["answer"];
}

/** Where a file is downloaded from by a plain link. */
export function linkTo(path: string): string {
  return API + path;
}

function filled(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(values[name] ?? ""));
}
