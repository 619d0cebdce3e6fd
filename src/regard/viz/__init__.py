"""Pictures of records: a heatmap file, a page, a terminal. The only package that imports matplotlib, and only when it draws."""
