"""Programs that are copied into an export's folder, never imported: one for each task with ONNX, and one for CTranslate2."""
