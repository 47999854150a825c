"""Proof on the real engine: captures of its runs, their replay, and the engine itself. Nothing imports it."""
