"""Tagged sentences: from files to encoded corpora."""
