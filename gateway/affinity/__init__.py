"""Which replica holds which prefix: bindings in Redis, with a local mirror for when Redis is away."""
