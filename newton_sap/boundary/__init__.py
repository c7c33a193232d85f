"""Newton's objects, translated for the kernels: conventions, topology, contacts, actuators, checks and output."""
