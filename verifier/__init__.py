"""Decides the text: sequences, acceptance, batching, the engine."""
