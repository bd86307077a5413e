"""Sandbox: runs untrusted work in a child process without network or files, with limits on memory, CPU and time.

`process.run` starts a fresh interpreter for one piece of work and yields its messages; `fork_server.ForkServer` forks a
process that has imported the work; `confinement.confine` confines the calling process, for programs that fork their own
children. None needs a privilege or a namespace.
"""
