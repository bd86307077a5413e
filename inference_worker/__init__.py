"""Inference worker: takes jobs of one model from RabbitMQ, computes them on one device, and publishes the replies.

`worker/` is the process that consumes job queues and handles text, `engine/` the child process that runs the model on
token ids, `engine_protocol` the messages between them. No HTTP and no billing here.
"""
