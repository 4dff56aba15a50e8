"""Where images come from, one data set a file. Every file here is imported, so that the streams in
it are registered.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
