"""Settings of the kernels that run the lessons.

A kernel warns that other users of the machine could read its connection. This is true, but not useful in the output of a build.
"""

c.IPKernelApp.log_level = "ERROR"  # noqa: F821 (IPython defines `c`)
