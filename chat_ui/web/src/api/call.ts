/**
 * A typed client of the chat API: operations by method and path, with request and response types from `openapi.d.ts`,
 * which is generated from the API's OpenAPI document (`npm run types`).
 */
import { json, type Request } from "./http";
import type { paths } from "./openapi";

type Paths = keyof paths & `/api/${string}`;
type Tail<P extends string> = P extends `/api${infer Rest}` ? Rest : never;
type Method = "get" | "post" | "put" | "patch" | "delete";
type Methods<P extends Paths> = { [M in Method & keyof paths[P]]: paths[P][M] extends object ? M : never }[Method & keyof paths[P]];

/** Name of an operation, such as `GET /people`. */
export type Name = { [P in Paths]: `${Uppercase<Methods<P>>} ${Tail<P>}` }[Paths];
type Operation<N extends Name> = N extends `${infer M} ${infer P}`
  ? paths[`/api${P}` & Paths][Lowercase<M> & keyof paths[`/api${P}` & Paths]]
  : never;

type Json = { readonly content: { readonly "application/json": unknown } };
type Inside<C> = C extends { readonly content: { readonly "application/json": infer Value } } ? Value : never;
type Body<O> = O extends { readonly requestBody: infer B extends Json } ? Inside<B> : never;
type Good<R> = R extends Readonly<Record<200 | 201 | 202, infer C>> ? C : R[keyof R & (200 | 201 | 202)];
type Answer<O> = O extends { readonly responses: infer R } ? (keyof R & (200 | 201 | 202) extends never ? undefined : Inside<Good<R>>) : never;
type Parameters<O> = O extends { readonly parameters: infer P } ? P : never;
type Query<O> = Parameters<O> extends { readonly query?: infer Q } ? NonNullable<Q> : never;
type Path<O> = Parameters<O> extends { readonly path: infer P extends object } ? P : never;

type Part<Key extends string, Value> = [Value] extends [never] ? { readonly [K in Key]?: never } : { readonly [K in Key]: Value };
type Given<O> = Part<"body", Body<O>> &
  Part<"path", Path<O>> & { readonly query?: Query<O>; readonly signal?: AbortSignal };
type Optional<T> = object extends T ? [given?: T] : [given: T];

/** Calls an operation: `call("GET /people")`. Values of `path` replace `{name}` in the path. Throws `ApiError`. */
export async function call<N extends Name>(name: N, ...[given]: Optional<Given<Operation<N>>>): Promise<Answer<Operation<N>>> {
  const [method = "GET", template = ""] = name.split(" ");
  const { path = {}, ...rest } = (given ?? {}) as { path?: Readonly<Record<string, unknown>> } & Request;
  return (await json(method, filled(template, path), rest)) as Answer<Operation<N>>;
}

function filled(template: string, values: Readonly<Record<string, unknown>>): string {
  return template.replace(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(String(values[name] ?? "")));
}
