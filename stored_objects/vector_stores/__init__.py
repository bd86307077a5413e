"""Vector stores: files of a project that are searched, imported in the background; and the passages of their text."""
