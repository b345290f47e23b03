"""Real nodes for tests: kubelet, containerd and runc in namespaces of their own."""
