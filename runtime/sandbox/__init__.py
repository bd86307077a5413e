"""Runs untrusted work in a child process: no network, no files, limits on memory, CPU, output and time.

`process.run` starts a fresh interpreter for one piece of work and yields its messages; `confinement.confine` confines
the calling process, for programs that fork their own children. Neither needs a privilege or a namespace.
"""
