"""Programs that are copied into an export's folder, never imported: one for ONNX graphs, and one for CTranslate2."""
