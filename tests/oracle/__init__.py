"""Scenes solved by Drake's discrete SAP solver, and the means to replay them with a Newton solver."""
