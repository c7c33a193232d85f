"""The convex minimisation: objective, Hessian, exact line search and the Newton loop; knows nothing of Newton models."""
