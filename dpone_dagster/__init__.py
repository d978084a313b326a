"""Load one large PostgreSQL table once, safely, and hand it over to incremental loads, inside Dagster."""

import importlib

__version__ = "0.1.0"
_COMPONENT = "Campaign"


def __getattr__(name: str) -> object:
    """The component, which brings Dagster; everybody else imports this package without it."""
    if name == _COMPONENT:
        return getattr(importlib.import_module("dpone_dagster.component"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """With the component, so that `dg` finds it."""
    return [*globals(), _COMPONENT]
