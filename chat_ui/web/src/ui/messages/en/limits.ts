/** Texts of the editor of rate limits. */

export const limits = {
  limitsHint: "How much all people and API keys may ask for together. The limits of one person or key are set in the lists of people and keys.",
  limitsOf: (name: string) => `Limits: ${name}`,
  limitsOfOrganisation: "The whole organisation",
  limitsOfModel: (name: string) => `Model ${name}, in all projects`,
  limitsOfProject: (name: string) => `Project ${name}`,
  limitsFieldsHint: "Left empty: no limit of your own.",
  limitsCeiling: (most: string) => `At most ${most}, set by the operator.`,
  limitsOverCeiling: "This is more than the operator allows.",
  limitsNotANumber: "A limit is a whole number from 1 to 999999999.",
  limitsSaved: "The limits apply within seconds.",
};
