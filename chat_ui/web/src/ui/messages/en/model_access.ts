/** Texts of the administration page about model access. */
export const modelAccess = {
  modelAccessHint:
    "A request may use the models that its key, its project, its person’s role and the person may use. " +
    "Owners can’t be restricted, and only they restrict administrators. A change holds within five seconds.",
  modelAccessOf: "Of",
  modelAccessKinds: { project: "Project", role: "Role", user: "Person" },
  mayUse: "May use",
  mayUseAll: "Every model",
  mayUseNone: "No model",
  mayUseOnly: (models: string) => `Only ${models}`,
  mayUseAllBut: (models: string) => `All but ${models}`,
  modelRule: "Models",
  modelRules: { all: "Every model", allow_list: "Only these", deny_list: "All but these" },
  servedModels: "Served models",
  unlistedModels: "Other models",
  unlistedModelsHint: "Names or aliases, in full, with commas between them.",
};
