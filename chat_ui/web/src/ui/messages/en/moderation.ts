/** Texts of the administration page about the checks of prompts and answers. */
export const moderation = {
  moderationHint:
    "A classifier or the operator’s rules check the prompts and answers of a project. What has a category that blocks is refused, or ends. " +
    "A change holds within five seconds. A classifier is billed at its price; chats belong to the oldest project in use.",
  checkedBy: "Checked by",
  notChecked: "Nothing is checked",
  checkedTexts: "What is checked",
  checkedPrompts: "Prompts",
  checkedAnswers: "Answers",
  blocking: "Blocks",
  blockingRules: { all: "Every category", some: "Only these categories" },
  categories: "Categories",
  noCategory: "Choose a category.",
  nothingToCheck: "Choose prompts, answers or both.",
};
