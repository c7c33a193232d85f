"""Loops over matrices and vectors, and how the lanes of a block share them; knows neither bodies nor constraints."""
