"""vLLM in this process, or in its own processes for a server."""
