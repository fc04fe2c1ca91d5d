"""Section 5, the transport inverse problem: −aΔu + τ·∇u = 1, u = 0 on the boundary, τ ~ N(0, I) from sensors."""
