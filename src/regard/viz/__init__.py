"""Pictures of records: a heatmap file, a page, a terminal. The only room that imports matplotlib, and only when it draws."""
