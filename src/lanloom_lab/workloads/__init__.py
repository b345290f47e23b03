"""What runs the cluster's pods in the lab, as far as Lanloom needs it: DaemonSets, a scheduler, kubelets."""
