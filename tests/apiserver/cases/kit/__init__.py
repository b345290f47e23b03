"""The kit of the comparison: cases are scripts of HTTP requests, run on a real kube-apiserver and on the embedded one."""
