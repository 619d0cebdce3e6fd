"""Pictures of records: files, pages, and text in a terminal. Only this package imports matplotlib, and only when it draws."""
