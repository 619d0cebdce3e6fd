"""Attention mechanisms with a common interface (`base.Attention`), and masks, normalizers, positions and pooling for them.

Each mechanism can be used in your own PyTorch model, without the models and tasks of `regard`.
"""

from regard.attention.additive import Additive, AdditiveMemory, additive_attention, additive_scores
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Observation
from regard.attention.concat import Concat, SumConcat
from regard.attention.contextual import ContextualPositionAttention
from regard.attention.cosine import Cosine
from regard.attention.coverage import Coverage, FertilityCoverage, FertilityMemory, coverage_loss
from regard.attention.differential import DifferentialAttention
from regard.attention.entmax import Entmax
from regard.attention.forgetting import ForgettingAttention
from regard.attention.gated_delta import GatedDeltaNet
from regard.attention.hard_mocha import ChunkMemory, HardMoChA
from regard.attention.hard_monotonic import HardMonotonic, HardMonotonicState, stopping_points
from regard.attention.head_memory import HeadMemory
from regard.attention.history import HistoryAttention, HistoryState
from regard.attention.latent import LatentAttention
from regard.attention.linear import LinearConcat
from regard.attention.linear_attention import LinearAttention
from regard.attention.local import LocalMonotonic, LocalPredictive, LocalState
from regard.attention.location import LocationSensitive
from regard.attention.masks import causal_mask, combine_masks, padding_mask, window_mask, zero_masked
from regard.attention.mocha import MoChA, expected_chunks
from regard.attention.modifiers import AddedKeys, HeadModifier, OutputGate, QKNorm, TalkingHeads
from regard.attention.monotonic import MonotonicAttention, WeightNormAdditive
from regard.attention.multihead import MultiHead
from regard.attention.multiplicative import Dot, General, ScaledDot
from regard.attention.normalizers import Entmax15, Sigmoid, SoftCap, Softmax, Sparsemax, Temperature, masked_softmax
from regard.attention.packing import document_ids, document_mask, document_positions
from regard.attention.pooling import AdditivePooling, AttentionPooling, MeanPooling, MultiHeadPooling
from regard.attention.pooling_base import Pooled, Pooling
from regard.attention.positions import ALiBi, RelativeBias, RelativePositions
from regard.attention.recurrent_heads import RecurrentHeads, SummaryState
from regard.attention.rotary import (
    LinearScaling,
    Llama3Scaling,
    NTKScaling,
    Rotary,
    RotaryScaling,
    YaRNScaling,
)
from regard.attention.scored import ScoredAttention
from regard.attention.self_attention import SelfAttention
from regard.attention.sink import SoftmaxSink, Softpick
from regard.attention.soft_monotonic import SoftMonotonic, SoftMonotonicState, expected_alignments
from regard.attention.stick_breaking import StickBreaking
from regard.attention.trilinear import Trilinear

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
    "combine_masks",
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
