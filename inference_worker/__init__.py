"""One model on one device: jobs in from the queue, tokens out.

`worker` sees the queue, `text/` sees characters, `engine` sees token ids. Nothing here knows HTTP or money.
"""
