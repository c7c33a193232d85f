"""Multibody dynamics of trees: kinematics, mass matrix, free motion and integration."""
