tune --from .
