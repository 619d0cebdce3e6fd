"""Pictures of records and of results: files, pages, and text in a terminal. Only this package imports matplotlib."""
