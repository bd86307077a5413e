"""What every consumer of jobs does, whatever it answers them with: an engine of ours, or an upstream outside.

`job_consumer` keeps the order that nothing may break (terminal, usage record, acknowledgement); `taken_jobs`,
`admission` and `windows` are what it keeps it with. Nothing here knows what a token is made of.
"""
