"""What users do with kubectl, a module for each task. Importing the package registers all of it."""

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(iter_modules(__path__), key=lambda found: found.name):
    import_module(f"{__name__}.{_module.name}")
