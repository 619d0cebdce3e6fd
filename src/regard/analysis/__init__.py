"""Analyses of any model or run: capture of attention, logged metrics, and descriptions of runs."""
