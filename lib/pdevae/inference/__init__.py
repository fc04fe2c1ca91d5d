"""Any PDE inverse problem: what is unknown, the forward map, and methods that find its posterior."""
