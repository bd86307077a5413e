"""Job consumer of every process that answers jobs: consumes a model's queues, and ends, settles or hands over each job.

`job_consumer` enforces the order terminal reply, confirmed usage record, acknowledgement for every job.
"""
