/** Texts of the editor of rate limits. */

export const limits = {
  limitsHint: "For all requests of a subject, from API keys and chats. Limits of one person or API key are set in the lists of people and keys.",
  limitsOf: (name: string) => `Limits of ${name}`,
  limitsOfOrganisation: "The whole organisation",
  limitsOfModel: (name: string) => `Model ${name}, in all projects`,
  limitsOfProject: (name: string) => `Project ${name}`,
  limitsFieldsHint: "Left empty: no limit of your own.",
  limitsCeiling: (most: string) => `At most ${most}, set by the operator.`,
  limitsOverCeiling: "This is more than the operator allows.",
  limitsNotANumber: "A limit is a whole number from 1 to 999999999.",
  limitsSaved: "The limits apply within seconds.",
};
