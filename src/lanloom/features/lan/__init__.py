"""LANs across the cluster, for pods and machines, with any source MAC."""
