"""What tools find that keep a cluster as files say: kubectl apply, Argo CD, Flux, Terraform."""
