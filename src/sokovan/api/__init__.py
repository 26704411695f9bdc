"""The REST API: authentication, authorisation, routes and streams over the ports."""
