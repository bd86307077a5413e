/** Texts of the list of conversations, search, export and shared pages. */

export const history = {};
