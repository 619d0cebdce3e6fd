"""Learning to translate, and translating."""
