"""Attention mechanisms with a common interface (`base.Attention`), and masks, normalizers, positions and pooling for them.

Each mechanism can be used in your own PyTorch model, without the models and tasks of `regard`.
"""

from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Observation
from regard.attention.heads.contextual import ContextualPositionAttention
from regard.attention.heads.differential import DifferentialAttention
from regard.attention.heads.forgetting import ForgettingAttention
from regard.attention.heads.gated_delta import GatedDeltaNet
from regard.attention.heads.latent import LatentAttention
from regard.attention.heads.linear import LinearAttention
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.modifiers import AddedKeys, HeadModifier, OutputGate, QKNorm, TalkingHeads
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.packing import document_ids, document_mask, document_positions
from regard.attention.heads.positions import ALiBi, RelativeBias, RelativePositions
from regard.attention.heads.recurrent import RecurrentHeads, SummaryState
from regard.attention.heads.rotary import (
    LinearScaling,
    Llama3Scaling,
    NTKScaling,
    Rotary,
    RotaryScaling,
    YaRNScaling,
)
from regard.attention.masks import causal_mask, padding_mask, window_mask, zero_masked
from regard.attention.normalizers.base import Normalizer
from regard.attention.normalizers.sink import SoftmaxSink, Softpick, StickBreaking
from regard.attention.normalizers.softmax import Sigmoid, SoftCap, Softmax, Temperature, masked_softmax
from regard.attention.normalizers.sparse import Entmax, Entmax15, Sparsemax
from regard.attention.ordered.coverage import Coverage, FertilityCoverage, FertilityMemory, coverage_loss
from regard.attention.ordered.history import HistoryAttention, HistoryState
from regard.attention.ordered.local import LocalMonotonic, LocalPredictive, LocalState
from regard.attention.ordered.location import LocationSensitive
from regard.attention.ordered.mocha import ChunkMemory, HardMoChA, MoChA, expected_chunks
from regard.attention.ordered.monotonic import (
    HardMonotonic,
    HardMonotonicState,
    MonotonicAttention,
    SoftMonotonic,
    SoftMonotonicState,
    expected_alignments,
    stopping_points,
)
from regard.attention.pooling import AdditivePooling, AttentionPooling, MeanPooling, MultiHeadPooling, Pooled, Pooling
from regard.attention.scores.additive import Additive, AdditiveMemory, WeightNormAdditive, additive_attention, additive_scores
from regard.attention.scores.base import ScoredAttention
from regard.attention.scores.concat import Concat, SumConcat
from regard.attention.scores.cosine import Cosine
from regard.attention.scores.linear import LinearConcat
from regard.attention.scores.products import Dot, General, ScaledDot
from regard.attention.scores.self_attention import SelfAttention
from regard.attention.scores.trilinear import Trilinear

__all__ = [
    "ALiBi",
    "AddedKeys",
    "Additive",
    "AdditiveMemory",
    "AdditivePooling",
    "Attention",
    "AttentionOutput",
    "AttentionPooling",
    "ChunkMemory",
    "Concat",
    "ContextualPositionAttention",
    "Cosine",
    "Coverage",
    "DifferentialAttention",
    "Dot",
    "Entmax",
    "Entmax15",
    "FertilityCoverage",
    "FertilityMemory",
    "ForgettingAttention",
    "GatedDeltaNet",
    "General",
    "HardMoChA",
    "HardMonotonic",
    "HardMonotonicState",
    "HeadMemory",
    "HeadModifier",
    "HistoryAttention",
    "HistoryState",
    "LatentAttention",
    "LinearAttention",
    "LinearConcat",
    "LinearScaling",
    "Llama3Scaling",
    "LocalMonotonic",
    "LocalPredictive",
    "LocalState",
    "LocationSensitive",
    "MeanPooling",
    "Memory",
    "MoChA",
    "MonotonicAttention",
    "MultiHead",
    "MultiHeadPooling",
    "NTKScaling",
    "Normalizer",
    "Observation",
    "OutputGate",
    "Pooled",
    "Pooling",
    "QKNorm",
    "RecurrentHeads",
    "RelativeBias",
    "RelativePositions",
    "Rotary",
    "RotaryScaling",
    "ScaledDot",
    "ScoredAttention",
    "SelfAttention",
    "Sigmoid",
    "SoftCap",
    "SoftMonotonic",
    "SoftMonotonicState",
    "Softmax",
    "SoftmaxSink",
    "Softpick",
    "Sparsemax",
    "StickBreaking",
    "SumConcat",
    "SummaryState",
    "TalkingHeads",
    "Temperature",
    "Trilinear",
    "WeightNormAdditive",
    "YaRNScaling",
    "additive_attention",
    "additive_scores",
    "causal_mask",
    "coverage_loss",
    "document_ids",
    "document_mask",
    "document_positions",
    "expected_alignments",
    "expected_chunks",
    "masked_softmax",
    "padding_mask",
    "stopping_points",
    "window_mask",
    "zero_masked",
]
