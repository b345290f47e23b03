"""Why an object is not deleted: what keeps it, who lets go, and when. The values behind `lanloom why-not-deleted`.

`kinds` knows what objects are called, `namespaces` and `networks` what keeps them; the `blockers` of features know what
Lanloom's own finalizers wait for. These are pure; `questions` and `reading` ask the API server.
"""
