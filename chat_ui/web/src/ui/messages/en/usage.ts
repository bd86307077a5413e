/** Texts of the usage page. */

export const usage = {};
