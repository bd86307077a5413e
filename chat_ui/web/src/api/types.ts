/** Types of the chat API's other routes. Times are Unix seconds, money is integer nano-USD. */
import type { components } from "./openapi";

type Schemas = components["schemas"];

export type Role = Schemas["Role"];
export type Me = Schemas["Me"];
export type ProviderOptions = Schemas["ProviderOptions"];
export type IdentityList = Schemas["IdentityList"];
export type PendingSignIn = Schemas["PendingSignIn"];
export type NewSecondFactor = Schemas["NewSecondFactor"];
export type SignIn = Schemas["SignInBody"];
export type SignUp = Schemas["SignUpBody"];
export type Person = Schemas["Person"];
export type Invitation = Schemas["Invitation"];
export type Project = Schemas["Project"];
export type Key = Schemas["Key"];
export type NewKey = Schemas["NewKey"];
export type ProjectModeration = Schemas["ProjectModeration"];
export type ModelPolicy = Schemas["ModelPolicy"];
export type BudgetRow = Schemas["BudgetRow"];
export type Batch = Schemas["Batch"];
export type Collection = Schemas["Collection"];
export type CollectionFile = Schemas["CollectionFile"];
export type CollectionFiles = Schemas["CollectionFiles"];
export type OwnerlessCollection = Schemas["OwnerlessCollection"];
export type CollectionReaders = Schemas["CollectionReaders"];
export type DocumentPassage = Schemas["DocumentPassage"];
export type DocumentPassages = Schemas["DocumentPassages"];
export type FoundPassage = Schemas["FoundPassage"];
export type DayUsage = Schemas["DayUsage"];
export type Balance = Schemas["BalanceSummary"];
export type Limit = Schemas["Limit"];
export type LimitRow = Schemas["RateLimitRow"];
export type AuditRow = Schemas["AuditRow"];
export type PriceList = Schemas["PriceList"];
export type PriceRow = Schemas["PriceRow"];
export type OrganisationRow = Schemas["OrganisationRow"];
export type WorkerList = Schemas["WorkerList"];
