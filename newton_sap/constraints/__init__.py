"""Constraint laws, each a small convex function, and the pools that hold their elements."""
