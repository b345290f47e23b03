"""Server-side apply: who owns which field of an object, and what an applied configuration makes of it.

`paths` has sets of fields and their form on the wire, `typed` divides a value into fields by its schema, and `managers`
decides what becomes of an object and of its owners.

Owners are kept from an object's first apply on. Before that they are not needed, and each write would carry them. As
kube-apiserver does with objects that were written before it kept owners, the first apply finds all fields owned by
`before-first-apply`.
"""
