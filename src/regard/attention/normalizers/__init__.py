"""Normalizers, which turn scores into weights: `softmax`, `sparse` and `sink` have their formulas."""
