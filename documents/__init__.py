"""Documents as text: parsing of files, passages for search, and their indexes."""
