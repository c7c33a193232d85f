"""How kernels get at processors and memory: parts and threads, what parts share, fetching ahead, packed arrays."""
