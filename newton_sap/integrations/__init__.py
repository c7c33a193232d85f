"""Adapters for frameworks on top of Newton; each is imported by name, only where its framework is installed."""
