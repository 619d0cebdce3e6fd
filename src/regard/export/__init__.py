"""Trained models for other runtimes: ONNX graphs with attention among their outputs."""

from regard.export.onnx import Exported, export_onnx

__all__ = ["Exported", "export_onnx"]
