"""Export of trained models to other runtimes: ONNX graphs, whose outputs include the attention, and CTranslate2's format."""

from regard.export.ctranslate2 import export_ctranslate2
from regard.export.folder import Exported
from regard.export.onnx import export_onnx
from regard.export.quantization import Quality

__all__ = ["Exported", "Quality", "export_ctranslate2", "export_onnx"]
