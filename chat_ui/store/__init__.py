"""History in MongoDB: implements the ports of `chat_ui/history/`."""
