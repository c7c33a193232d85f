"""The only code that knows Newton's objects: conventions, topology, contacts and output."""
