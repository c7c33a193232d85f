"""Contacts of a step: Newton's rows, where surfaces touch by now and what of, and the pool that this fills."""
