"""The command line, with one module per command and no numerical code."""
