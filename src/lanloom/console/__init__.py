"""The console: web pages that show what the command line shows, read with the rights of the browser's user.

Features name their pages (`Feature.console`) as values of `page`: a path, the command that prints the same, and a
function that reads the objects. `html` makes a page of them, `live` follows what it was made of, `sessions` knows whose
rights a browser has, and `app` puts them behind HTTP. Nothing here writes to the cluster.
"""
