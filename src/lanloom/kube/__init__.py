"""The Kubernetes kit: client, store, informer, queue, controller, election, events. It knows no feature."""
