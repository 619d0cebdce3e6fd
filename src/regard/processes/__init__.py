"""Several processes working together: ranks, and the cores of this machine."""
