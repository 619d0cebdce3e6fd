"""Recurrent translators: encoders, bridges and decoders with attention."""
