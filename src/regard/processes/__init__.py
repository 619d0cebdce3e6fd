"""Cooperation of several processes: ranks, communication, signals and shared files; and the number of cores."""
