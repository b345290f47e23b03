"""Why an object is not deleted: what keeps it, who lets go, and when. The values behind `lanloom why-not-deleted`.

`kinds` knows what objects are called, `finalizers` whose finalizers are; `isolated` and `addresses` know what Lanloom's
own wait for, `namespaces` and `networks` what else keeps an object. These are pure; `questions` and `reading` ask
the API server.
"""
