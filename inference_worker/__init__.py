"""Inference worker: takes jobs of one model from RabbitMQ and computes them on one device.

`worker` consumes the job queues, `text/` handles characters, `engine` computes token ids. No HTTP and no billing here.
"""
