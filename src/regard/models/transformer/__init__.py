"""An encoder–decoder Transformer."""
