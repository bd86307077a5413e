"""What projects keep for a time: stored chat completions, responses, conversations and their items; and batches."""
