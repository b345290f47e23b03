"""The base of every process: features, contexts, identity, certificates, webhooks, metrics, probes and logs."""
