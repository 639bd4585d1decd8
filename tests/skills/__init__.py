"""Agent Skills: reading, sources and trust, the tools, the commands."""
