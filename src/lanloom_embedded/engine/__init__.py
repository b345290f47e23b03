"""The engine of the API server: objects, versions, watches, admission. It knows neither HTTP nor files.

Whatever takes time or chance comes in from outside (storage, clock, random numbers, webhooks), so that a whole
server runs in a simulation as it runs in production.
"""
