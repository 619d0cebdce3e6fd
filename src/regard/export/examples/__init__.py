"""Programs that are written into an export's folder, one for each task. They are copied, not imported."""
