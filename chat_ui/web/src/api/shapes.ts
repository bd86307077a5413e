/** What the chat's API (`/api`) sends and takes. Times are Unix seconds, money integer nano-USD. */

export type Role = "owner" | "admin" | "member" | "viewer";

export interface Named {
  readonly id: string;
  readonly name: string;
}

export interface Me {
  readonly user: { readonly id: string; readonly email: string; readonly name: string };
  readonly organisation: Named;
  readonly role: Role;
  readonly project: string;
  readonly projects: readonly Named[];
}

export interface SignIn {
  readonly email: string;
  readonly password: string;
  readonly organisation?: string;
}

export interface SignUp {
  readonly email: string;
  readonly password: string;
  readonly name?: string;
  readonly invitation?: string;
  readonly organisation?: string;
}

export interface InvitationDetails {
  readonly organisation: string;
  readonly role: Role;
  readonly email: string | null;
  readonly expires_at: number;
}
