"""Job consumer shared by workers (our engine) and proxies (upstream providers).

`job_consumer` enforces the order terminal reply, confirmed usage record, acknowledgement for every job.
"""
