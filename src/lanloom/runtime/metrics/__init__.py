"""What manager, agent and server show of themselves: /metrics, /healthz and /readyz."""
