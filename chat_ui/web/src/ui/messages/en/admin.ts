/** Texts of the administration pages. */

export const admin = {};
