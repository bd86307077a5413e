"""`kill -9` of each process of an assistant's answer in each phase of it, and what clients, books and blobs show."""
